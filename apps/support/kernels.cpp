// The one place where our programs and tests compile the kernels; everywhere else they are only declared.
#include "colibri/simd/kernels.hpp"
