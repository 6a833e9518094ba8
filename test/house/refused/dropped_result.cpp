// refused: nodiscard
// An error can't be overlooked: a result that nobody looks at is a warning.
#include "colibri/core/error.hpp"

colibri::result<int> parse();

int main() {
    parse();  // fault
    return parse() ? 0 : 1;
}
