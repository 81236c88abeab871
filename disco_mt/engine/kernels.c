/* int8 arithmetic of the incremental engine for x86-64 processors with AMX, Intel's matrix units.
 *
 * One call computes a layer: a product, the operations after it and the quantization for the next one run
 * while the numbers are in the processor's cache. native_runtime.py calls these functions; test_kernels.py
 * compares them with torch.
 *
 * Matrices are cut into panels of 32 columns: two columns of tiles, each tile 64 x 16 numbers in the layout
 * of AMX, (in / 4, 16, 4). The result for a row never depends on other rows: sums of products are exact, and
 * everything else is computed row by row.
 */

/* Incremented when a signature changes: native.py ignores kernels of another version. */
int disco_format(void) { return 1; }

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && (__GNUC__ >= 12 || defined(__clang__))

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,amx-tile,amx-int8")

enum {
    LANES = 16,      /* numbers per vector register */
    ROWS = 32,       /* rows that are multiplied with a panel at a time */
    PANEL = 32,      /* columns of a panel */
    INNER = 64,      /* rows of a tile */
    TILE = 1024,     /* bytes of a tile */
    MOST_ROWS = 128, /* rows that are quantized at a time */
    BLOCK = 512      /* logits of a row that are kept at a time */
};
enum { NONE = 0, RELU = 1, GELU = 2 };

typedef struct {
    const int8_t *panels;   /* quantized weights */
    const int32_t *zeros;   /* the products of each column with rows of zeros */
    const float *scales;    /* of each column */
    const float *bias;
    int64_t in, out;        /* out: padded to whole panels */
} Matrix;

typedef struct { const float *gain, *shift; } Norm;
typedef struct { Matrix query, out; Norm norm; } Attention;
typedef struct { Matrix up, down; Norm norm; } FeedForward;

typedef struct {
    const float *keys, *values;      /* (groups, heads, length, size) */
    int64_t group_stride, length;
    const uint8_t *visible;          /* (rows, length), or (groups, length) */
    int64_t visible_by_row;
    const int64_t *groups;           /* (rows,) ascending */
} Seen;

typedef struct {
    int64_t width, heads, hidden, pre, activation;
    float eps, active_least;         /* the least scale of activations */
    int64_t zero, active_zero;       /* the 8-bit numbers that stand for 0 */
} Shape;

/* ---- persistent memory of a thread ---- */

typedef struct { void *memory; size_t size; } Buffer;

static void *room(Buffer *buffer, size_t size) {
    if (buffer->size < size) {
        free(buffer->memory);
        size = (size + 4095) / 4096 * 4096;
        buffer->memory = aligned_alloc(64, size);
        if (!buffer->memory) abort();
        buffer->size = size;
    }
    return buffer->memory;
}

static __thread Buffer rounded_room, normed_room, query_room, mixed_room, inner_room, turned_room, score_room,
    logit_room, offset_room;

static int64_t up_to(int64_t number, int64_t step) { return (number + step - 1) / step * step; }

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

static __mmask16 lanes(int64_t left) { return left >= LANES ? 0xFFFF : (__mmask16)((1u << left) - 1); }

/* ---- functions of 16 numbers at a time ---- */

static inline __m512 exp16(__m512 x) {
    __m512 power = _mm512_mul_ps(_mm512_max_ps(x, _mm512_set1_ps(-87.0f)), _mm512_set1_ps(1.44269504f));
    __m512 whole = _mm512_roundscale_ps(power, 8), rest = _mm512_sub_ps(power, whole);
    __m512 sum = _mm512_set1_ps(1.535336188e-4f); /* 2^rest, by Cephes */
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.339887440e-3f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(9.618437358e-3f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(5.550332471e-2f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(2.402264791e-1f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(6.931472029e-1f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(sum, whole);
}

/* x Phi(x), by Abramowitz and Stegun 7.1.26: error below 1.5e-7 */
static inline __m512 gelu16(__m512 x) {
    __m512 size = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(0.70710678f));
    __m512 below = _mm512_fmadd_ps(size, _mm512_set1_ps(0.3275911f), _mm512_set1_ps(1.0f));
    __m512 t = _mm512_rcp14_ps(below);
    t = _mm512_mul_ps(t, _mm512_fnmadd_ps(below, t, _mm512_set1_ps(2.0f)));
    __m512 sum = _mm512_set1_ps(1.061405429f);
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(-1.453152027f));
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(1.421413741f));
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(-0.284496736f));
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(0.254829592f));
    __m512 square = _mm512_mul_ps(size, size);
    __m512 tail = _mm512_mul_ps(_mm512_mul_ps(sum, t), exp16(_mm512_sub_ps(_mm512_setzero_ps(), square)));
    __m512 half = _mm512_mul_ps(_mm512_set1_ps(0.5f), tail); /* Phi(-|x|) */
    __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
    return _mm512_mul_ps(x, _mm512_mask_sub_ps(half, above, _mm512_set1_ps(1.0f), half));
}

/* ---- rows as 8-bit numbers ---- */

/* x: (rows, in) -> (rows, padded in), scales (rows,). active: x comes from an activation. */
static void round_rows(const Shape *shape, const float *x, int64_t rows, int64_t in, int active,
                       uint8_t *out, float *scales) {
    int64_t padded = up_to(in, INNER);
    int32_t zero = (int32_t)(active ? shape->active_zero : shape->zero);
    for (int64_t row = 0; row < rows; row++, x += in, out += padded) {
        __m512 top = _mm512_setzero_ps();
        for (int64_t at = 0; at < in; at += LANES) {
            __m512 part = _mm512_maskz_loadu_ps(lanes(in - at), x + at);
            top = _mm512_max_ps(top, active ? part : _mm512_abs_ps(part));
        }
        float scale = _mm512_reduce_max_ps(top) / (float)(255 - zero);
        if (active && scale < shape->active_least) scale = shape->active_least;
        scales[row] = scale;
        __m512 factor = _mm512_set1_ps(scale > 0 ? 1.0f / scale : 0.0f);
        for (int64_t at = 0; at < padded; at += LANES) {
            __m512 part = at < in ? _mm512_maskz_loadu_ps(lanes(in - at), x + at) : _mm512_setzero_ps();
            __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(part, factor));
            whole = _mm512_add_epi32(whole, _mm512_set1_epi32(zero));
            whole = _mm512_max_epi32(whole, _mm512_setzero_si512());
            _mm_storeu_si128((__m128i *)(out + at), _mm512_cvtusepi32_epi8(whole));
        }
    }
}

/* ---- products ---- */

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((packed)) TileConfig;

static void begin_tiles(void) {
    TileConfig config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int tile = 0; tile < 8; tile++) config.bytes[tile] = 64, config.rows[tile] = 16;
    _tile_loadconfig(&config);
}

/* Prefetches the next panel while this one is processed. */
static inline void fetch(const int8_t *tile) {
    for (int64_t line = 0; line < TILE; line += 64) _mm_prefetch((const char *)tile + line, _MM_HINT_T0);
}

/* Sums of products of 32 (or, if half, 16) quantized rows with one panel. x: (32, padded in) -> (32, 32).
 * next: the next panel, or NULL. */
static inline void multiply(const uint8_t *x, int64_t padded, const int8_t *panel, const int8_t *next,
                            int half, int32_t *sums) {
    int64_t tiles = padded / INNER;
    const int8_t *second = panel + tiles * TILE;
    const uint8_t *lower = x + 16 * padded;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t tile = 0; tile < tiles; tile++) {
        if (next) fetch(next + 2 * tile * TILE), fetch(next + (2 * tile + 1) * TILE);
        _tile_loadd(4, x + tile * INNER, padded);
        _tile_loadd(6, panel + tile * TILE, 64);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, second + tile * TILE, 64);
        _tile_dpbusd(1, 4, 7);
        if (half) continue;
        _tile_loadd(5, lower + tile * INNER, padded);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    if (!half) {
        _tile_stored(2, sums + 16 * PANEL, PANEL * 4);
        _tile_stored(3, sums + 16 * PANEL + 16, PANEL * 4);
    }
    _tile_stored(0, sums, PANEL * 4);
    _tile_stored(1, sums + 16, PANEL * 4);
}

/* 16 columns of one row, dequantized. */
static inline __m512 value16(const int32_t *sums, const Matrix *matrix, int64_t column, __m512 scale) {
    __m512i whole = _mm512_sub_epi32(_mm512_loadu_si512(sums), _mm512_loadu_si512(matrix->zeros + column));
    __m512 factor = _mm512_mul_ps(scale, _mm512_loadu_ps(matrix->scales + column));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), factor, _mm512_loadu_ps(matrix->bias + column));
}

typedef struct {
    float *to;
    const int64_t *row_offsets;     /* where a row begins; NULL: `stride` after the one before */
    const int64_t *column_offsets;  /* where each 16 columns begin; NULL: contiguous */
    int64_t stride, columns;        /* columns: without padding */
    const float *add;               /* added to the result, in the same layout */
    int activation, active;         /* active: x comes from an activation */
} Target;

/* Writes one row of a panel's sums to the target. place: index of the row; column: the panel's first. */
static inline void put_row(const int32_t *sums, const Matrix *matrix, const Target *target, int64_t place,
                           int64_t column, float scale) {
    int64_t base = target->row_offsets ? target->row_offsets[place] : place * target->stride;
    for (int64_t at = column; at < column + PANEL && at < target->columns; at += LANES) {
        __mmask16 wanted = lanes(target->columns - at);
        __m512 y = value16(sums + at - column, matrix, at, _mm512_set1_ps(scale));
        if (target->activation == GELU) y = gelu16(y);
        if (target->activation == RELU) y = _mm512_max_ps(y, _mm512_setzero_ps());
        int64_t spot = base + (target->column_offsets ? target->column_offsets[at / LANES] : at);
        if (target->add) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(wanted, target->add + spot));
        _mm512_mask_storeu_ps(target->to + spot, wanted, y);
    }
}

/* target = activation(x matrix + bias) + add. x: (rows, in). */
static void product(const Shape *shape, const float *x, int64_t rows, const Matrix *matrix,
                    const Target *target) {
    int64_t in = matrix->in, padded = up_to(in, INNER), panel_size = padded / INNER * TILE * 2;
    int32_t sums[ROWS * PANEL] __attribute__((aligned(64)));
    float scales[MOST_ROWS];
    for (int64_t first = 0; first < rows; first += MOST_ROWS) {
        int64_t number = least(rows - first, MOST_ROWS);
        uint8_t *whole = room(&rounded_room, (size_t)(up_to(number, ROWS) * padded));
        round_rows(shape, x + first * in, number, in, target->active, whole, scales);
        for (int64_t column = 0; column < target->columns; column += PANEL) {
            const int8_t *panel = matrix->panels + column / PANEL * panel_size;
            for (int64_t top = 0; top < number; top += ROWS) {
                int64_t here = least(number - top, ROWS);
                const int8_t *next = top ? NULL : panel + panel_size;
                multiply(whole + top * padded, padded, panel, next, here <= 16, sums);
                for (int64_t row = 0; row < here; row++)
                    put_row(sums + row * PANEL, matrix, target, first + top + row, column, scales[top + row]);
            }
        }
    }
}

/* ---- LayerNorm ---- */

static void normalise(const float *x, int64_t rows, int64_t width, const Norm *norm, float eps, float *out) {
    for (int64_t row = 0; row < rows; row++, x += width, out += width) {
        __m512 sum = _mm512_setzero_ps(), square = _mm512_setzero_ps();
        for (int64_t at = 0; at < width; at += LANES)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes(width - at), x + at));
        __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)width);
        for (int64_t at = 0; at < width; at += LANES) {
            __mmask16 wanted = lanes(width - at);
            __m512 apart = _mm512_maskz_sub_ps(wanted, _mm512_maskz_loadu_ps(wanted, x + at), mean);
            square = _mm512_fmadd_ps(apart, apart, square);
        }
        __m512 factor = _mm512_set1_ps(1.0f / sqrtf(_mm512_reduce_add_ps(square) / (float)width + eps));
        for (int64_t at = 0; at < width; at += LANES) {
            __mmask16 wanted = lanes(width - at);
            __m512 unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(wanted, x + at), mean), factor);
            unit = _mm512_fmadd_ps(unit, _mm512_maskz_loadu_ps(wanted, norm->gain + at),
                                   _mm512_maskz_loadu_ps(wanted, norm->shift + at));
            _mm512_mask_storeu_ps(out + at, wanted, unit);
        }
    }
}

/* ---- attention ---- */

/* (length, size) -> (size, padded length), padded with zeros. */
static void turn(const float *keys, int64_t length, int64_t size, int64_t padded, float *out) {
    for (int64_t from = 0; from < padded; from += LANES)
        for (int64_t column = 0; column < size; column += LANES) {
            __m512 in[LANES], out_rows[LANES];
            for (int64_t row = 0; row < LANES; row++)
                in[row] = _mm512_maskz_loadu_ps(from + row < length ? lanes(size - column) : 0,
                                                keys + (from + row) * size + column);
            for (int64_t i = 0; i < 16; i += 2) { /* 1 x 1, 2 x 2, 4 x 4, 8 x 8: swap quarters */
                out_rows[i] = _mm512_unpacklo_ps(in[i], in[i + 1]);
                out_rows[i + 1] = _mm512_unpackhi_ps(in[i], in[i + 1]);
            }
            for (int64_t i = 0; i < 16; i += 4) {
                for (int64_t j = 0; j < 2; j++) {
                    __m512d one = _mm512_castps_pd(out_rows[i + j]);
                    __m512d two = _mm512_castps_pd(out_rows[i + j + 2]);
                    in[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(one, two));
                    in[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(one, two));
                }
            }
            for (int64_t i = 0; i < 4; i++) { /* columns i, i + 4, i + 8, i + 12 of four rows each */
                __m512 one = _mm512_shuffle_f32x4(in[i], in[i + 4], 0x88);
                __m512 two = _mm512_shuffle_f32x4(in[i], in[i + 4], 0xdd);
                __m512 three = _mm512_shuffle_f32x4(in[i + 8], in[i + 12], 0x88);
                __m512 four = _mm512_shuffle_f32x4(in[i + 8], in[i + 12], 0xdd);
                out_rows[i] = _mm512_shuffle_f32x4(one, three, 0x88);
                out_rows[i + 4] = _mm512_shuffle_f32x4(two, four, 0x88);
                out_rows[i + 8] = _mm512_shuffle_f32x4(one, three, 0xdd);
                out_rows[i + 12] = _mm512_shuffle_f32x4(two, four, 0xdd);
            }
            for (int64_t row = 0; row < LANES && column + row < size; row++)
                _mm512_storeu_ps(out + (column + row) * padded + from, out_rows[row]);
        }
}

/* One row and head. turned: (size, padded); values: (length, size); weights: room for (padded,). */
static void attend_row(const float *query, const float *turned, const float *values, const uint8_t *visible,
                       int64_t length, int64_t size, int64_t padded, float *weights, float *out) {
    __m512 top = _mm512_set1_ps(-INFINITY);
    for (int64_t from = 0; from < padded; from += 2 * LANES) {
        int two = from + LANES < padded;
        __m512 one = _mm512_setzero_ps(), other = one, third = one, fourth = one;
        const float *column = turned + from;
        int64_t at = 0;
        for (; at + 1 < size; at += 2, column += 2 * padded) {
            __m512 left = _mm512_set1_ps(query[at]), right = _mm512_set1_ps(query[at + 1]);
            one = _mm512_fmadd_ps(left, _mm512_loadu_ps(column), one);
            third = _mm512_fmadd_ps(right, _mm512_loadu_ps(column + padded), third);
            if (two) {
                other = _mm512_fmadd_ps(left, _mm512_loadu_ps(column + LANES), other);
                fourth = _mm512_fmadd_ps(right, _mm512_loadu_ps(column + padded + LANES), fourth);
            }
        }
        if (at < size) {
            __m512 left = _mm512_set1_ps(query[at]);
            one = _mm512_fmadd_ps(left, _mm512_loadu_ps(column), one);
            if (two) other = _mm512_fmadd_ps(left, _mm512_loadu_ps(column + LANES), other);
        }
        __m512 scores[2] = {_mm512_add_ps(one, third), _mm512_add_ps(other, fourth)};
        for (int64_t part = 0; part <= two; part++) {
            int64_t place = from + part * LANES;
            __m128i seen = _mm_maskz_loadu_epi8(lanes(length - place), visible + place);
            __mmask16 visibly = _mm_test_epi8_mask(seen, seen);
            __m512 score = _mm512_mask_blend_ps(visibly, _mm512_set1_ps(-INFINITY), scores[part]);
            top = _mm512_max_ps(top, score);
            _mm512_storeu_ps(weights + place, score);
        }
    }
    __m512 most = _mm512_set1_ps(_mm512_reduce_max_ps(top)), sum = _mm512_setzero_ps();
    for (int64_t from = 0; from < padded; from += LANES) {
        __m512 score = _mm512_loadu_ps(weights + from);
        __mmask16 seen = _mm512_cmp_ps_mask(score, _mm512_set1_ps(-INFINITY), _CMP_GT_OQ);
        __m512 weight = _mm512_maskz_mov_ps(seen, exp16(_mm512_sub_ps(score, most)));
        sum = _mm512_add_ps(sum, weight);
        _mm512_storeu_ps(weights + from, weight);
    }
    __m512 share = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
    for (int64_t column = 0; column < size; column += 4 * LANES) {
        int64_t parts = least(up_to(size - column, LANES) / LANES, 4);
        __m512 nothing = _mm512_setzero_ps(), mixed[4] = {nothing, nothing, nothing, nothing};
        if (size - column >= 4 * LANES) {
            for (int64_t key = 0; key < length; key++) {
                const float *value = values + key * size + column;
                __m512 weight = _mm512_set1_ps(weights[key]);
                mixed[0] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(value), mixed[0]);
                mixed[1] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(value + 16), mixed[1]);
                mixed[2] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(value + 32), mixed[2]);
                mixed[3] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(value + 48), mixed[3]);
            }
        } else {
            for (int64_t key = 0; key < length; key++) {
                __m512 weight = _mm512_set1_ps(weights[key]);
                for (int64_t part = 0; part < parts; part++) {
                    int64_t at = column + part * LANES;
                    __m512 value = _mm512_maskz_loadu_ps(lanes(size - at), values + key * size + at);
                    mixed[part] = _mm512_fmadd_ps(weight, value, mixed[part]);
                }
            }
        }
        for (int64_t part = 0; part < parts; part++) {
            int64_t at = column + part * LANES;
            _mm512_mask_storeu_ps(out + at, lanes(size - at), _mm512_mul_ps(mixed[part], share));
        }
    }
}

/* Attention of each row. queries, out: (rows, width); a query is `stride` after the one before. */
void disco_attend(const float *queries, int64_t stride, int64_t rows, int64_t heads, int64_t size,
                  const Seen *seen, float *out) {
    int64_t length = seen->length, padded = up_to(length, LANES), width = heads * size;
    float *turned = room(&turned_room, (size_t)(up_to(size, LANES) * padded) * 4);
    float *weights = room(&score_room, (size_t)padded * 4);
    for (int64_t start = 0, end; start < rows; start = end) {
        int64_t group = seen->groups[start];
        for (end = start + 1; end < rows && seen->groups[end] == group;) end++;
        for (int64_t head = 0; head < heads; head++) {
            int64_t offset = group * seen->group_stride + head * length * size;
            turn(seen->keys + offset, length, size, padded, turned);
            for (int64_t row = start; row < end; row++) {
                const uint8_t *visible = seen->visible + (seen->visible_by_row ? row : group) * length;
                attend_row(queries + row * stride + head * size, turned, seen->values + offset, visible,
                           length, size, padded, weights, out + row * width + head * size);
            }
        }
    }
}

/* ---- blocks ---- */

static Target plain(float *to, int64_t columns) {
    Target target = {to, NULL, NULL, columns, columns, NULL, NONE, 0};
    return target;
}

/* The input of a block: pre-norm blocks normalise first. */
static const float *enter(const Shape *shape, const float *h, int64_t rows, const Norm *norm) {
    if (!shape->pre) return h;
    float *normed = room(&normed_room, (size_t)(rows * shape->width) * 4);
    normalise(h, rows, shape->width, norm, shape->eps, normed);
    return normed;
}

/* h = h + x matrix, normalised after it in post-norm models. */
static void leave(const Shape *shape, float *h, const float *x, int64_t rows, const Matrix *matrix,
                  int active, const Norm *norm) {
    Target target = plain(h, shape->width);
    target.add = h;
    target.active = active;
    product(shape, x, rows, matrix, &target);
    if (!shape->pre) normalise(h, rows, shape->width, norm, shape->eps, h);
}

static void attention_block(const Shape *shape, float *h, int64_t rows, const Attention *block,
                            const Seen *seen) {
    int64_t width = shape->width;
    float *query = room(&query_room, (size_t)(rows * width) * 4);
    float *mixed = room(&mixed_room, (size_t)(rows * width) * 4);
    Target target = plain(query, width);
    product(shape, enter(shape, h, rows, &block->norm), rows, &block->query, &target);
    disco_attend(query, width, rows, shape->heads, width / shape->heads, seen, mixed);
    leave(shape, h, mixed, rows, &block->out, 0, &block->norm);
}

static void feed_forward_block(const Shape *shape, float *h, int64_t rows, const FeedForward *block) {
    float *inner = room(&inner_room, (size_t)(least(rows, MOST_ROWS) * shape->hidden) * 4);
    for (int64_t first = 0; first < rows; first += MOST_ROWS) {
        int64_t number = least(rows - first, MOST_ROWS);
        float *here = h + first * shape->width;
        Target target = plain(inner, shape->hidden);
        target.activation = (int)shape->activation;
        product(shape, enter(shape, here, number, &block->norm), number, &block->up, &target);
        leave(shape, here, inner, number, &block->down, 1, &block->norm);
    }
}

/* ---- called by native_runtime.py ---- */

/* Requests permission to use tiles, as Linux requires. */
int disco_amx_allowed(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

/* y (rows, columns) = x matrix + bias, written to the given offsets. */
void disco_product(const Shape *shape, const float *x, int64_t rows, const Matrix *matrix, float *to,
                   const int64_t *row_offsets, const int64_t *column_offsets, int64_t columns) {
    Target target = plain(to, columns);
    target.row_offsets = row_offsets;
    target.column_offsets = column_offsets;
    begin_tiles();
    product(shape, x, rows, matrix, &target);
    _tile_release();
}

/* One encoder layer. x: (sentences, length, width), changed in place; visible: (sentences, length). */
void disco_encoder_layer(const Shape *shape, float *x, int64_t sentences, int64_t length,
                         const uint8_t *visible, const Attention *attention,
                         const FeedForward *feed_forward) {
    int64_t rows = sentences * length, width = shape->width, heads = shape->heads, size = width / heads;
    float *every = room(&query_room, (size_t)(rows * 3 * width) * 4);
    float *mixed = room(&mixed_room, (size_t)(rows * width) * 4);
    float *pair = room(&logit_room, (size_t)(2 * length * width) * 4);
    int64_t *groups = room(&offset_room, (size_t)length * 8);
    memset(groups, 0, (size_t)length * 8);
    Target target = plain(every, 3 * width);
    begin_tiles();
    product(shape, enter(shape, x, rows, &attention->norm), rows, &attention->query, &target);
    for (int64_t sentence = 0; sentence < sentences; sentence++) {
        float *base = every + sentence * length * 3 * width;
        for (int64_t head = 0; head < heads; head++)
            for (int64_t place = 0; place < length; place++)
                for (int64_t half = 0; half < 2; half++)
                    memcpy(pair + ((half * heads + head) * length + place) * size,
                           base + place * 3 * width + (half + 1) * width + head * size, (size_t)size * 4);
        Seen seen = {pair, pair + length * width, 0, length, visible + sentence * length, 0, groups};
        disco_attend(base, 3 * width, length, heads, size, &seen, mixed + sentence * length * width);
    }
    leave(shape, x, mixed, rows, &attention->out, 0, &attention->norm);
    feed_forward_block(shape, x, rows, feed_forward);
    _tile_release();
}

/* One decoder layer of a later pass. h: (rows, width), changed in place. */
void disco_later_layer(const Shape *shape, float *h, int64_t rows, const Attention *self, const Seen *words,
                       const Attention *cross, const Seen *source, const FeedForward *feed_forward) {
    begin_tiles();
    attention_block(shape, h, rows, self, words);
    attention_block(shape, h, rows, cross, source);
    feed_forward_block(shape, h, rows, feed_forward);
    _tile_release();
}

/* The same in the first pass, where each row sees one token. anchors: (candidates, width), its values. */
void disco_first_layer(const Shape *shape, float *h, int64_t rows, const Attention *self,
                       const float *anchors, int64_t candidates, const int64_t *members,
                       const Attention *cross, const Seen *source, const FeedForward *feed_forward) {
    int64_t width = shape->width;
    float *mixed = room(&mixed_room, (size_t)(candidates * width) * 4);
    Target target = plain(mixed, width);
    begin_tiles();
    product(shape, anchors, candidates, &self->out, &target);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0; at < width; at++) h[row * width + at] += mixed[members[row] * width + at];
    if (!shape->pre) normalise(h, rows, width, &self->norm, shape->eps, h);
    attention_block(shape, h, rows, cross, source);
    feed_forward_block(shape, h, rows, feed_forward);
    _tile_release();
}

/* A row's logits so far: the largest of a word and its entry; all exponentials sum to exp(mark) total. */
typedef struct {
    float *tops;
    int64_t *places;
    float *marks, *totals;
} Best;

/* `size` more logits of a row, entries `block` ... of the vocabulary; words begin with entry `words`. */
static void take(float *logits, int64_t size, int64_t block, int64_t words, const Best *best, int64_t row) {
    for (int64_t at = size; at < up_to(size, LANES); at++) logits[at] = -INFINITY;
    __m512 most = _mm512_set1_ps(-INFINITY), total = _mm512_setzero_ps();
    for (int64_t at = 0; at < size; at += LANES) most = _mm512_max_ps(most, _mm512_loadu_ps(logits + at));
    float mark = _mm512_reduce_max_ps(most);
    if (mark > best->marks[row]) {
        best->totals[row] *= expf(best->marks[row] - mark);
        best->marks[row] = mark;
    }
    most = _mm512_set1_ps(best->marks[row]);
    for (int64_t at = 0; at < size; at += LANES)
        total = _mm512_add_ps(total, exp16(_mm512_sub_ps(_mm512_loadu_ps(logits + at), most)));
    best->totals[row] += _mm512_reduce_add_ps(total);
    if (mark <= best->tops[row]) return;
    for (int64_t at = block < words ? words - block : 0; at < size; at++)
        if (logits[at] > best->tops[row]) best->tops[row] = logits[at], best->places[row] = block + at;
}

/* The logits of rows, `hidden matrix`, entries first ... last - 1. first: a whole number of panels.
 * tops, places, marks, totals: (rows,), see Best. */
void disco_best(const Shape *shape, const float *hidden, int64_t rows, const Matrix *matrix, int64_t first,
                int64_t last, int64_t words, float *tops, int64_t *places, float *marks, float *totals) {
    int64_t in = matrix->in, padded = up_to(in, INNER), panel_size = padded / INNER * TILE * 2;
    int32_t sums[ROWS * PANEL] __attribute__((aligned(64)));
    float scales[MOST_ROWS], *logits = room(&logit_room, ROWS * BLOCK * 4);
    Best best = {tops, places, marks, totals};
    for (int64_t row = 0; row < rows; row++)
        tops[row] = marks[row] = -INFINITY, totals[row] = 0, places[row] = words;
    begin_tiles();
    for (int64_t begin = 0; begin < rows; begin += MOST_ROWS) {
        int64_t number = least(rows - begin, MOST_ROWS);
        uint8_t *whole = room(&rounded_room, (size_t)(up_to(number, ROWS) * padded));
        round_rows(shape, hidden + begin * in, number, in, 0, whole, scales);
        for (int64_t block = first; block < last; block += BLOCK) {
            int64_t size = least(last - block, BLOCK);
            for (int64_t top = 0; top < number; top += ROWS) {
                int64_t here = least(number - top, ROWS);
                for (int64_t column = 0; column < size; column += PANEL) {
                    const int8_t *panel = matrix->panels + (block + column) / PANEL * panel_size;
                    const int8_t *next = top ? NULL : panel + panel_size;
                    multiply(whole + top * padded, padded, panel, next, here <= 16, sums);
                    for (int64_t row = 0; row < here; row++)
                        for (int64_t at = 0; at < PANEL; at += LANES)
                            _mm512_storeu_ps(logits + row * BLOCK + column + at,
                                             value16(sums + row * PANEL + at, matrix, block + column + at,
                                                     _mm512_set1_ps(scales[top + row])));
                }
                for (int64_t row = 0; row < here; row++)
                    take(logits + row * BLOCK, size, block, words, &best, begin + top + row);
            }
        }
    }
    _tile_release();
}

#else

int disco_amx_allowed(void) { return 0; }

#endif
