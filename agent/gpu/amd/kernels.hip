#ifndef KERNEL
#define KERNEL extern "C" __global__ void
#define DEVICE __device__
#endif

typedef unsigned long long u64;

DEVICE u64 hostler_word(u64 lo, u64 hi, u64 i)
{
    u64 z = lo + (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31 ^ hi;
}

#define EACH(i, n)                                                   \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; \
         i += (u64)gridDim.x * blockDim.x)

KERNEL hostler_fill(u64 *words, u64 n, u64 lo, u64 hi, u64 first)
{
    EACH(i, n) words[i] = hostler_word(lo, hi, first + i);
}

KERNEL hostler_mismatches(const u64 *words, u64 n, u64 lo, u64 hi, u64 first, u64 *count)
{
    u64 mine = 0;
    EACH(i, n) mine += words[i] != hostler_word(lo, hi, first + i);
    if (mine) atomicAdd(count, mine);
}

KERNEL hostler_nonzero(const u64 *words, u64 n, u64 *count)
{
    u64 mine = 0;
    EACH(i, n) mine += words[i] != 0;
    if (mine) atomicAdd(count, mine);
}
