#include "data/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#ifdef HAVE_PNG
#include <png.h>
#endif
#ifdef HAVE_JPEG
#include <jpeglib.h>
#endif

#include "base/file.h"
#include "base/memory.h"

bool picture_named(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

/* Before any pixel is unpacked: a file of some bytes can announce gigabytes of them. */
static enum esper_status check_size(unsigned long width, unsigned long height, struct esper_error *error)
{
    if (width < 1 || height < 1 || width > DATASET_SIZE_MAX || height > DATASET_SIZE_MAX)
        return error_set(error, ESPER_INVALID, "%lux%lu pixels; images have from %dx%d to %dx%d, scale it first", width,
                         height, DATASET_SIZE_MIN, DATASET_SIZE_MIN, DATASET_SIZE_MAX, DATASET_SIZE_MAX);
    return ESPER_OK;
}

/* ---- PNG --------------------------------------------------------------------------------------------------------- */

#ifdef HAVE_PNG
static enum esper_status png_decode(const void *data, size_t bytes, struct picture *picture, struct esper_error *error)
{
    const png_color black = {0, 0, 0};
    png_image png = {.version = PNG_IMAGE_VERSION};
    enum esper_status status = ESPER_OK;
    const bool opened = png_image_begin_read_from_memory(&png, data, bytes);
    if (opened)
        status = check_size(png.width, png.height, error);
    if (status == ESPER_OK) {
        picture->width = (int)png.width;
        picture->height = (int)png.height;
        png.format = PNG_FORMAT_RGB;
        png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* 16 bits a colour mean finer steps, not other colours */
        if (!opened || !png_image_finish_read(&png, &black, picture->pixels, 0, NULL))
            status = error_set(error, ESPER_INVALID, "a damaged PNG picture: %s", png.message);
    }
    png_image_free(&png);
    return status;
}
#else
static enum esper_status png_decode(const void *data, size_t bytes, struct picture *picture, struct esper_error *error)
{
    (void)data;
    (void)bytes;
    (void)picture;
    return error_set(error, ESPER_UNSUPPORTED,
                     "built without libpng: apt-get install libpng-dev zlib1g-dev, and make again");
}
#endif

/* ---- JPEG -------------------------------------------------------------------------------------------------------- */

#ifdef HAVE_JPEG
struct jpeg_failure {
    struct jpeg_error_mgr base; /* the first member: libjpeg hands this back */
    jmp_buf place;
};

static void jpeg_leave(j_common_ptr jpeg)
{
    longjmp(((struct jpeg_failure *)(void *)jpeg->err)->place, 1);
}

static void jpeg_be_silent(j_common_ptr jpeg)
{
    (void)jpeg;
}

static enum esper_status jpeg_say(j_common_ptr jpeg, struct esper_error *error)
{
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    return error_set(error, ESPER_INVALID, "a damaged JPEG picture: %.150s", text);
}

/* A file that ends early or has lost bytes is only worth a warning to libjpeg, and then it invents pixels. */
static enum esper_status jpeg_unpack(struct jpeg_decompress_struct *jpeg, const void *data, size_t bytes,
                                     struct picture *picture, struct esper_error *error)
{
    jpeg_mem_src(jpeg, data, (unsigned long)bytes);
    jpeg_read_header(jpeg, TRUE);
    TRY(check_size(jpeg->image_width, jpeg->image_height, error));
    jpeg->out_color_space = JCS_RGB; /* from grey as well */
    jpeg->dct_method = JDCT_ISLOW;   /* the same pixels on every machine */
    jpeg_start_decompress(jpeg);
    picture->width = (int)jpeg->output_width;
    picture->height = (int)jpeg->output_height;
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = picture->pixels + (size_t)jpeg->output_scanline * (size_t)picture->width * DATASET_COLOURS;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
    return jpeg->err->num_warnings ? jpeg_say((j_common_ptr)jpeg, error) : ESPER_OK;
}

/* libjpeg gives up through setjmp's second return; what it leaves behind is the caller's. */
static enum esper_status jpeg_try(struct jpeg_decompress_struct *jpeg, struct jpeg_failure *failure, const void *data,
                                  size_t bytes, struct picture *picture, struct esper_error *error)
{
    if (setjmp(failure->place))
        return jpeg_say((j_common_ptr)jpeg, error);
    jpeg_create_decompress(jpeg);
    return jpeg_unpack(jpeg, data, bytes, picture, error);
}

static enum esper_status jpeg_decode(const void *data, size_t bytes, struct picture *picture, struct esper_error *error)
{
    struct jpeg_decompress_struct jpeg = {0};
    struct jpeg_failure failure;
    jpeg.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = jpeg_leave;
    failure.base.output_message = jpeg_be_silent;
    const enum esper_status status = jpeg_try(&jpeg, &failure, data, bytes, picture, error);
    jpeg_destroy_decompress(&jpeg);
    return status;
}
#else
static enum esper_status jpeg_decode(const void *data, size_t bytes, struct picture *picture, struct esper_error *error)
{
    (void)data;
    (void)bytes;
    (void)picture;
    return error_set(error, ESPER_UNSUPPORTED,
                     "built without libjpeg: apt-get install libjpeg62-turbo-dev and make again, or convert it to PNG");
}
#endif

/* ---- either ------------------------------------------------------------------------------------------------------ */

enum esper_status picture_decode(const void *data, size_t bytes, struct picture *picture, struct esper_error *error)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, jpeg[] = {0xff, 0xd8, 0xff};
    if (bytes >= sizeof png && memcmp(data, png, sizeof png) == 0)
        return png_decode(data, bytes, picture, error);
    if (bytes >= sizeof jpeg && memcmp(data, jpeg, sizeof jpeg) == 0)
        return jpeg_decode(data, bytes, picture, error);
    const char *kind = file_kind(data, bytes);
    return error_set(error, ESPER_INVALID, "%s, not a PNG or JPEG picture",
                     bytes == 0 ? "empty"
                     : kind     ? kind
                                : "unknown content");
}

enum esper_status picture_read(const char *path, struct picture *picture, struct esper_error *error)
{
    char *data;
    size_t bytes;
    TRY(file_read_own(path, PICTURE_FILE, &data, &bytes, error));
    enum esper_status status = picture_decode(data, bytes, picture, error);
    if (status != ESPER_OK)
        error_where(error, "%s", path);
    memory_free(data);
    return status;
}
