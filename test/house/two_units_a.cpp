// One of two translation units that include everything; see two_units_b.cpp.
#include "colibri/colibri.hpp"

const void* version_in_b();
colibri::result<colibri::dtype> dtype_in_b();

int main() {
    // An inline variable is one object in the whole program.
    return version_in_b() == &colibri::version_string && *dtype_in_b() == colibri::dtype::q4_k ? 0 : 1;
}
