// Cutting text into tokens, per model and kind of text: MB per second of one thread.
#include "colibri/gguf/file.hpp"
#include "colibri/text/tokenizer.hpp"
#include "common.hpp"

namespace {

/// Made-up words with the lengths and the letters' frequencies of prose.
std::string prose(std::size_t bytes) {
    constexpr std::string_view letters = "eeeeeetttttaaaaooooiiiinnnnsssshhhrrrddllucmmwfgypbvk";
    bench::noise noise(11);
    std::string out;
    while (out.size() < bytes) {
        const std::size_t length = 1 + noise.next() % 5 + noise.next() % 5;
        for (std::size_t i = 0; i < length; ++i) out += letters[noise.next() % letters.size()];
        const auto kind = noise.next() % 100;
        out += kind < 8 ? ". " : kind < 14 ? ", " : kind < 16 ? "\n\n" : " ";
    }
    return out;
}

/// Names, indentation and signs as in a program.
std::string code(std::size_t bytes) {
    constexpr std::string_view words[] = {"return", "const", "value", "for", "if", "index", "std::vector", "auto", "size", "result", "i", "x"};
    constexpr std::string_view signs[] = {" = ", "(", ")", "; ", " + ", "[", "]", "->", " == ", ", ", " {\n    ", ";\n        ", "1024", "0x7f"};
    bench::noise noise(12);
    std::string out;
    while (out.size() < bytes) {
        out += words[noise.next() % std::size(words)];
        out += signs[noise.next() % std::size(signs)];
    }
    return out;
}

}  // namespace

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    constexpr std::size_t megabyte = 1000000;
    const std::pair<std::string, std::string> texts[] = {
        {"prose", prose(megabyte)}, {"code", code(megabyte)}, {"one_word", std::string(megabyte, 'a')}};
    for (const std::string name : {"smollm2", "gemma3"}) {
        const auto path = models::file(name);
        if (!path) continue;
        const auto file = colibri::gguf::file::open(*path);
        const auto tokenizer = colibri::text::tokenizer::open(file.value().meta());
        for (const auto& [kind, text] : texts) {
            bench::add(name + "/" + kind, [t = tokenizer.value(), s = text](benchmark::State& state) {
                std::size_t tokens = 0;
                for (auto _ : state) tokens = t.encode(s).size();
                state.counters["MB/s"] = bench::rate(static_cast<double>(s.size()) / 1e6);
                state.counters["tokens"] = static_cast<double>(tokens);
            }, benchmark::kMillisecond);
        }
        bench::add(name + "/open", [meta = file.value().meta()](benchmark::State& state) {
            for (auto _ : state) benchmark::DoNotOptimize(colibri::text::tokenizer::open(meta).value().size());
        }, benchmark::kMillisecond);
    }
    return bench::run();
}
