/* The log that the fault library writes (faults.c) and the power loss test reads: what a program did to the files under
 * one directory, in order. */
#ifndef FAULTS_LOG_H
#define FAULTS_LOG_H

#include <stdint.h>

enum log_operation {
    LOG_CREATE,   /* path, inode: opened, and created if it was not there */
    LOG_WRITE,    /* inode, offset, data */
    LOG_TRUNCATE, /* inode, offset: the new size */
    LOG_SYNC,     /* inode, of a file or a directory */
    LOG_RENAME,   /* path, and the new path after it */
    LOG_UNLINK,   /* path, of a file or a directory */
    LOG_MKDIR     /* path, inode */
};

/* Followed by `path_bytes` of paths below the directory, each with its NUL, and `data_bytes` of data. */
struct log_entry {
    uint32_t operation, path_bytes;
    uint64_t inode, offset, data_bytes;
};

#endif
