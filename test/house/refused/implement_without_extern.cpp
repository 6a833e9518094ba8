// refused: define COLIBRI_EXTERN_KERNELS for the whole program
// Implementing the kernels once makes sense only where the rest of the program declares them.
#define COLIBRI_IMPLEMENT_KERNELS  // fault
#include "colibri/simd/config.hpp"

int main() {}
