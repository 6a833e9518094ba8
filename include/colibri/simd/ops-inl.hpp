// Element-wise kernels, norms and softmax on vectors of any length. Part of kernels-inl.hpp.

/// First `n` < 16 floats at p, zeros behind.
COLIBRI_KERNEL Floats LoadSome(const float* p, std::size_t n) {
    float lanes[16] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i] = p[i];
    return Load(lanes);
}
COLIBRI_KERNEL void StoreSome(Floats a, float* p, std::size_t n) {
    float lanes[16];
    Store(a, lanes);
    for (std::size_t i = 0; i < n; ++i) p[i] = lanes[i];
}

/// out[i] = operation(x[i], y[i]), sixteen at a time; y may be null when the operation ignores it. The operation stands here once:
/// some are long.
template <class Operation>
COLIBRI_KERNEL void ForEach(const float* x, const float* y, float* out, std::size_t n, Operation operation) {
    for (std::size_t i = 0; i < n; i += 16) {
        const std::size_t left = n - i;
        const float* a = x + i;
        const float* b = y != nullptr ? y + i : a;
        float* c = out + i;
        float some[3][16];
        if (left < 16) {
            Store(LoadSome(a, left), some[0]);
            Store(LoadSome(b, left), some[1]);
            a = some[0];
            b = some[1];
            c = some[2];
        }
        Store(operation(Load(a), Load(b)), c);
        if (left < 16) StoreSome(Load(c), out + i, left);
    }
}

struct AddOp {
    COLIBRI_KERNEL Floats operator()(Floats a, Floats b) const { return Add(a, b); }
};
struct SwigluOp {
    COLIBRI_KERNEL Floats operator()(Floats gate, Floats up) const { return Mul(Silu(gate), up); }
};
struct GegluOp {
    COLIBRI_KERNEL Floats operator()(Floats gate, Floats up) const { return Mul(Gelu(gate), up); }
};
struct ExpOp {
    COLIBRI_KERNEL Floats operator()(Floats x, Floats) const { return Exp(x); }
};
struct ShiftedExpOp {
    Floats top;
    COLIBRI_KERNEL Floats operator()(Floats x, Floats) const { return Exp(Sub(x, top)); }
};
struct TanhOp {
    COLIBRI_KERNEL Floats operator()(Floats x, Floats) const { return Tanh(x); }
};
struct SoftcapOp {
    Floats cap;
    COLIBRI_KERNEL Floats operator()(Floats x, Floats) const { return Mul(cap, Tanh(Div(x, cap))); }
};
struct ScaleOp {
    Floats factor;
    COLIBRI_KERNEL Floats operator()(Floats x, Floats) const { return Mul(x, factor); }
};
struct MultiplyAddOp {
    Floats factor;
    COLIBRI_KERNEL Floats operator()(Floats x, Floats sum) const { return Fma(factor, x, sum); }
};
struct BlendOp {
    Floats x_factor;
    Floats y_factor;
    COLIBRI_KERNEL Floats operator()(Floats x, Floats y) const { return Fma(y, y_factor, Mul(x, x_factor)); }
};
struct NormOp {
    Floats factor;
    COLIBRI_KERNEL Floats operator()(Floats x, Floats weight) const { return Mul(Mul(x, factor), weight); }
};

COLIBRI_ENTRY void VectorAdd(const float* a, const float* b, float* out, std::size_t n) { ForEach(a, b, out, n, AddOp()); }
COLIBRI_ENTRY void Swiglu(const float* gate, const float* up, float* out, std::size_t n) { ForEach(gate, up, out, n, SwigluOp()); }
COLIBRI_ENTRY void Geglu(const float* gate, const float* up, float* out, std::size_t n) { ForEach(gate, up, out, n, GegluOp()); }
COLIBRI_ENTRY void VectorExp(const float* x, float* out, std::size_t n) { ForEach(x, nullptr, out, n, ExpOp()); }
COLIBRI_ENTRY void VectorTanh(const float* x, float* out, std::size_t n) { ForEach(x, nullptr, out, n, TanhOp()); }
COLIBRI_ENTRY void Softcap(float* x, float cap, std::size_t n) { ForEach(x, nullptr, x, n, SoftcapOp{Set(cap)}); }
COLIBRI_ENTRY void Scale(float* x, float factor, std::size_t n) { ForEach(x, nullptr, x, n, ScaleOp{Set(factor)}); }
COLIBRI_ENTRY void MultiplyAdd(float factor, const float* x, float* out, std::size_t n) {
    ForEach(x, out, out, n, MultiplyAddOp{Set(factor)});
}
COLIBRI_ENTRY void RmsNorm(const float* x, const float* weight, float* out, std::size_t n, float epsilon) {
    Floats squares = Zero();
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const Floats v = Load(x + i);
        squares = Fma(v, v, squares);
    }
    if (i < n) {
        const Floats v = LoadSome(x + i, n - i);
        squares = Fma(v, v, squares);
    }
    const float mean = Sum(squares) / static_cast<float>(n);
    const Floats factor = Set(1.0f / __builtin_sqrtf(mean + epsilon));
    if (weight != nullptr) ForEach(x, weight, out, n, NormOp{factor});
    else ForEach(x, nullptr, out, n, ScaleOp{factor});
}

COLIBRI_ENTRY float VectorMax(const float* x, std::size_t n) {
    Floats top = Set(-__builtin_inff());
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) top = Max(Load(x + i), top);
    float out = MaxLane(top);
    for (; i < n; ++i) out = x[i] > out ? x[i] : out;
    return out;
}

COLIBRI_ENTRY std::size_t Argmax(const float* x, std::size_t n) {
    const float top = VectorMax(x, n);
    for (std::size_t i = 0; i < n; ++i) {
        if (x[i] == top) return i;
    }
    return 0;  // nothing but NaNs
}

/// out = exp(x - top); returns the sum, in 16 lanes by index mod 16.
COLIBRI_KERNEL float ExpOfDifferences(const float* x, float top, float* out, std::size_t n) {
    ForEach(x, nullptr, out, n, ShiftedExpOp{Set(top)});
    Floats sums = Zero();
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) sums = Add(sums, Load(out + i));
    if (i < n) sums = Add(sums, LoadSome(out + i, n - i));
    return Sum(sums);
}

COLIBRI_ENTRY void Softmax(const float* x, float* out, std::size_t n) {
    const float sum = ExpOfDifferences(x, VectorMax(x, n), out, n);
    Scale(out, 1.0f / sum, n);
}

/// The pair (a, b) turned: (a cos - b sin, b cos + a sin); the products with sin are rounded first.
COLIBRI_KERNEL void Turn(Floats& a, Floats& b, Floats cosine, Floats sine) {
    const Floats turned = Fma(a, cosine, Neg(Mul(b, sine)));
    b = Fma(b, cosine, Mul(a, sine));
    a = turned;
}

COLIBRI_ENTRY void RopeInterleaved(float* x, const float* cosine, const float* sine, std::size_t rotated) {
    const std::size_t pairs = rotated / 2;
    std::size_t i = 0;
    Floats a;
    Floats b;
    for (; i + 16 <= pairs; i += 16) {
        LoadPairs(x + 2 * i, a, b);
        Turn(a, b, Load(cosine + i), Load(sine + i));
        StorePairs(a, b, x + 2 * i);
    }
    if (i < pairs) {
        float copy[32] = {};
        for (std::size_t j = 2 * i; j < rotated; ++j) copy[j - 2 * i] = x[j];
        LoadPairs(copy, a, b);
        Turn(a, b, LoadSome(cosine + i, pairs - i), LoadSome(sine + i, pairs - i));
        StorePairs(a, b, copy);
        for (std::size_t j = 2 * i; j < rotated; ++j) x[j] = copy[j - 2 * i];
    }
}

COLIBRI_ENTRY void RopeHalves(float* x, const float* cosine, const float* sine, std::size_t rotated) {
    const std::size_t pairs = rotated / 2;
    std::size_t i = 0;
    for (; i + 16 <= pairs; i += 16) {
        Floats a = Load(x + i);
        Floats b = Load(x + pairs + i);
        Turn(a, b, Load(cosine + i), Load(sine + i));
        Store(a, x + i);
        Store(b, x + pairs + i);
    }
    if (i < pairs) {
        const std::size_t n = pairs - i;
        Floats a = LoadSome(x + i, n);
        Floats b = LoadSome(x + pairs + i, n);
        Turn(a, b, LoadSome(cosine + i, n), LoadSome(sine + i, n));
        StoreSome(a, x + i, n);
        StoreSome(b, x + pairs + i, n);
    }
}
