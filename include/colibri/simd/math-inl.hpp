// exp and tanh as polynomials: the same bits on every target with FMA. Part of kernels-inl.hpp.

/// e^r for r = x - n ln 2, |r| <= ln 2 / 2, without its leading 1: r + r^2 * (1/2 + r/6 + ...), Taylor to r^7; and 2^n in two
/// factors, since n goes down to -150 and up to 128.
struct ExpParts {
    Floats tail;
    Floats half_power;
    Floats rest_power;
};
COLIBRI_KERNEL ExpParts SplitExp(Floats x) {
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits. Rounded: -ffast-math would cancel magic.
    const Floats magic = Set(0x1.8p23f);
    const Floats shifted = Rounded(Fma(x, Set(0x1.715476p0f), magic));
    const Floats n = Sub(shifted, magic);
    // ln 2 in two parts; the product of n and the first one, with 15 bits, is exact.
    Floats r = Fma(n, Set(-0x1.62e4p-1f), x);
    r = Fma(n, Set(-1.42860677e-6f), r);
    Floats p = Set(1.0f / 5040.0f);
    p = Fma(p, r, Set(1.0f / 720.0f));
    p = Fma(p, r, Set(1.0f / 120.0f));
    p = Fma(p, r, Set(1.0f / 24.0f));
    p = Fma(p, r, Set(1.0f / 6.0f));
    p = Fma(p, r, Set(0.5f));
    const Floats tail = Fma(Mul(r, r), p, r);
    const Ints exponent = Sub(Bits(shifted), SetInt(0x4b400000));
    const Ints half = ShiftRight<1>(exponent);
    const Ints rest = Sub(exponent, half);
    const Ints bias = SetInt(127);
    return {tail, FromBits(ShiftLeft<23>(Add(half, bias))), FromBits(ShiftLeft<23>(Add(rest, bias)))};
}

/// e^x: 1.02 ulp off at most; 0 below -104, infinity above 88.73, NaN for NaN.
COLIBRI_KERNEL Floats Exp(Floats x) {
    const ExpParts e = SplitExp(Min(Set(89.0f), Max(Set(-105.0f), x)));
    return Mul(Mul(Add(e.tail, Set(1.0f)), e.half_power), e.rest_power);
}

/// tanh x = (e^2|x| - 1) / (e^2|x| + 1) with the sign of x; e^y - 1 = 2^n (e^r - 1) + (2^n - 1) keeps small x exact to 2.3 ulp.
COLIBRI_KERNEL Floats Tanh(Floats x) {
    const Ints sign = And(Bits(x), SetInt(static_cast<std::int32_t>(0x80000000u)));
    const Floats magnitude = FromBits(And(Bits(x), SetInt(0x7fffffff)));
    // Above 9.02 the nearest float is 1.
    const Floats y = Min(Set(20.0f), Mul(magnitude, Set(2.0f)));
    const ExpParts e = SplitExp(y);
    const Floats power = Mul(e.half_power, e.rest_power);
    const Floats less_one = Fma(power, e.tail, Sub(power, Set(1.0f)));
    return FromBits(Or(Bits(Div(less_one, Add(less_one, Set(2.0f)))), sign));
}

/// x / (1 + e^-x).
COLIBRI_KERNEL Floats Silu(Floats x) {
    return Div(x, Add(Set(1.0f), Exp(Neg(x))));
}

/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
COLIBRI_KERNEL Floats Gelu(Floats x) {
    const Floats inner = Mul(x, Fma(Mul(x, x), Set(0.035677408136300125f), Set(0.7978845608028654f)));
    const Floats half = Mul(x, Set(0.5f));
    return Fma(half, Tanh(inner), half);
}
