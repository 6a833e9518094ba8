// Multiply-adds in registers, without memory: the most that this target's products can do. Part of kernels-inl.hpp.

#if COLIBRI_PLAIN_TARGET
/// Multiply-adds of 8-bit codes, `rounds` times 256 of them; returns how many. What they give goes to *sink.
COLIBRI_ENTRY std::uint64_t IntegerPeak(std::size_t rounds, std::int32_t* sink) {
    std::int8_t w[256], y[256];
    for (std::size_t i = 0; i < 256; ++i) w[i] = y[i] = static_cast<std::int8_t>(i & 63);
    std::int32_t total = 0;
    for (std::size_t r = 0; r < rounds; ++r) {
        asm volatile("" : : "r"(&w[0]), "r"(&y[0]) : "memory");  // the codes may be others in each round
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < 256; ++i) sum += w[i] * y[i];
        total ^= sum;
    }
    *sink = total;
    return std::uint64_t{rounds} * 256;
}
#else
// As in the products: a tile of rows times columns whose sums stay in registers, enough of them to hide the latency of a sum.
inline constexpr std::size_t kPeakRows = kBytes == 64 ? 3 : 2;
inline constexpr std::size_t kPeakColumns = 4;

#if HWY_ARCH_ARM
#define COLIBRI_VECTOR_REGISTER "+w"
#else
#define COLIBRI_VECTOR_REGISTER "+v"
#endif
/// Multiply-adds of 8-bit codes, `rounds` times a tile of vectors; returns how many. What they give goes to *sink.
COLIBRI_ENTRY std::uint64_t IntegerPeak(std::size_t rounds, std::int32_t* sink) {
    WordVec sums[kPeakRows * kPeakColumns];
    ByteVec w[kPeakRows], y[kPeakColumns];
    COLIBRI_UNROLL for (std::size_t i = 0; i < kPeakRows * kPeakColumns; ++i) sums[i] = ZeroWords();
    COLIBRI_UNROLL for (std::size_t i = 0; i < kPeakRows; ++i) w[i] = hn::Set(ByteTag(), static_cast<std::uint8_t>(i + 1));
    COLIBRI_UNROLL for (std::size_t j = 0; j < kPeakColumns; ++j) y[j] = hn::Set(ByteTag(), static_cast<std::uint8_t>(j + 1));
    for (std::size_t r = 0; r < rounds; ++r) {
        COLIBRI_UNROLL for (std::size_t i = 0; i < kPeakRows; ++i) {
            asm volatile("" : COLIBRI_VECTOR_REGISTER(w[i].raw));  // other weights in each round, for all that is known
            COLIBRI_UNROLL for (std::size_t j = 0; j < kPeakColumns; ++j) {
                sums[i * kPeakColumns + j] = DotUnsigned(sums[i * kPeakColumns + j], w[i], y[j]);
            }
        }
    }
    COLIBRI_UNROLL for (std::size_t i = 1; i < kPeakRows * kPeakColumns; ++i) sums[0] = hn::Add(sums[0], sums[i]);
    *sink = hn::GetLane(sums[0]);
    return std::uint64_t{rounds} * kPeakRows * kPeakColumns * kBytes;
}
#undef COLIBRI_VECTOR_REGISTER
#endif

/// Fused multiply-adds of floats, `rounds` times a tile of vectors; returns how many. What they give goes to *sink.
COLIBRI_ENTRY std::uint64_t FloatPeak(std::size_t rounds, float* sink) {
    Floats sums[kFloatRows][kFloatColumns];
    Floats w[kFloatRows], x[kFloatColumns];
    COLIBRI_UNROLL for (std::size_t c = 0; c < kFloatColumns; ++c) x[c] = Set(0.5f + static_cast<float>(c));
    COLIBRI_UNROLL for (std::size_t i = 0; i < kFloatRows; ++i) {
        w[i] = Set(1.0f + static_cast<float>(i));
        COLIBRI_UNROLL for (std::size_t c = 0; c < kFloatColumns; ++c) sums[i][c] = Zero();
    }
    for (std::size_t r = 0; r < rounds; ++r) {
        COLIBRI_UNROLL for (std::size_t i = 0; i < kFloatRows; ++i) {
            w[i] = Rounded(w[i]);
            COLIBRI_UNROLL for (std::size_t c = 0; c < kFloatColumns; ++c) sums[i][c] = Fma(w[i], x[c], sums[i][c]);
        }
    }
    Floats all = Zero();
    COLIBRI_UNROLL for (std::size_t i = 0; i < kFloatRows; ++i) {
        COLIBRI_UNROLL for (std::size_t c = 0; c < kFloatColumns; ++c) all = Add(all, sums[i][c]);
    }
    *sink = Sum(all);
    return std::uint64_t{rounds} * kFloatRows * kFloatColumns * 16;
}
