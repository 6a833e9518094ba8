// Entry point for libFuzzer: templates and JSON. Any folder with templates is a good seed:
//   clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -Iinclude -Itest test/fuzz/jinja_fuzz.cpp -o jinja_fuzz
//   mkdir -p corpus && ./jinja_fuzz -max_len=4096 -rss_limit_mb=1024 -max_total_time=300 corpus SEEDS
#include "fuzz/jinja_target.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    fuzz::jinja_target(bytes);
    fuzz::json_target(bytes);
    return 0;
}
