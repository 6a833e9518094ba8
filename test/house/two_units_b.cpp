// The other one.
#include "colibri/colibri.hpp"

const void* version_in_b() { return &colibri::version_string; }
colibri::result<colibri::dtype> dtype_in_b() { return colibri::dtype::q4_k; }
