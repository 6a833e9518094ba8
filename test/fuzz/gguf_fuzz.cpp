// Entry point for libFuzzer. The hostile golden files are the seeds:
//   clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -Iinclude -Itest test/fuzz/gguf_fuzz.cpp -o gguf_fuzz
//   mkdir -p corpus && ./gguf_fuzz -max_len=8192 -rss_limit_mb=1024 -max_total_time=300 corpus test/golden/hostile/gguf
#include "fuzz/gguf_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::gguf_target(std::as_bytes(std::span(data, size)));
    return 0;
}
