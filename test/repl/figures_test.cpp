#include "repl/figures.hpp"

#include <doctest/doctest.h>

using namespace colibri;
using namespace colibri::repl;

TEST_CASE("figures: progress tells the time left once enough is done to tell") {
    CHECK(reading_text({120, 900}, 0.9) == "reading: 120 of 900 tokens");
    CHECK(reading_text({0, 900}, 20.0) == "reading: 0 of 900 tokens");
    CHECK(reading_text({300, 900}, 7.0) == "reading: 300 of 900 tokens, 14 s left");
    CHECK(reading_text({899, 900}, 9.0) == "reading: 899 of 900 tokens, 1 s left");
    CHECK(reading_text({1, 3}, 60.0) == "reading: 1 of 3 tokens, 2 min left");
    CHECK(reading_text({1, 61}, 100.0) == "reading: 1 of 61 tokens, 100 min left");
    CHECK(reading_text({1, 101}, 90.0) == "reading: 1 of 101 tokens, 2.5 h left");
    CHECK(reading_text({900, 900}, 20.0) == "reading: 900 of 900 tokens");
}

TEST_CASE("figures: where the weights are") {
    memory_figures memory;
    memory.weights = 3 << 20;
    memory.how = "resident";
    CHECK(weights_text(memory) == "3.00 MiB resident");
    memory.how = "mapped";
    CHECK(weights_text(memory) == "3.00 MiB mapped");
    memory.how = "streamed";
    memory.swept = 2 << 20;
    CHECK(weights_text(memory) == "3.00 MiB held, 2.00 MiB read per token, streamed");
    memory.cache = 1 << 20;
    CHECK(weights_text(memory) == "3.00 MiB held (experts 1.00 MiB), 2.00 MiB read per token beside experts, streamed");
}
