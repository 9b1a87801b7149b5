/* The version and the commit this was built from (scripts/commit). */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

extern const char esper_build[];

#endif
