#include "colibri/gguf/foreign.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace colibri;

namespace {

std::string kind_of(std::string_view head) {
    return gguf::describe_foreign(std::as_bytes(std::span(head.data(), head.size())));
}

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

}  // namespace

TEST_CASE("files that people mistake for models are named") {
    using namespace std::string_view_literals;
    const std::vector<std::pair<std::string, std::string_view>> cases = {
        {"lmgg\x01\0\0\0", "old format"},
        {"tjgg\x03\0\0\0", "convert again"},
        {"fmgg", "old format"},
        {"algg", "old format"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 4661211808\n",
         "git-lfs pointer (size 4661211808)"},
        {"version https://git-lfs.github.com/spec/v1\noid", "git-lfs pointer;"},
        {"PK\x03\x04zzzz", "zip archive"},
        {"\x1f\x8b\x08", "gzip"},
        {"\x28\xb5\x2f\xfd", "zstd"},
        {std::string("\xfd"
                     "7zXZ\0",
                     6),
         "xz archive"},
        {"BZh91AY", "bzip2"},
        {"7z\xbc\xaf\x27\x1c", "7-zip"},
        {"\x89HDF\r\n", "HDF5"},
        {"\x7f"
         "ELF\x02",
         "a program"},
        {"MZqFpD='", "llamafile"},
        {"\x80\x02}q\x01", "pickle"},
        {"\x80\x04\x95", "pickle"},
        {std::string("\x40\0\0\0\0\0\0\0{\"a\":", 13), "safetensors"},
        {std::string("\xff\xff\x10\0\0\0\0\0{\"__metadata__\"", 20), "safetensors"},
        {"{\"model_type\": \"llama\"}", "JSON"},
        {"\xef\xbb\xbf \n[1, 2]", "JSON"},
        {"<!DOCTYPE html><html>", "HTML"},
        {"\n  <HTML><body>", "HTML"},
        {"%PDF-1.7", "PDF"},
        {"This is only a text about models.\n", "a text"},
        {std::string(512, '\0'), "zero bytes"},
        {std::string(257, 'x') + "ustar", "tar"},
    };
    for (const auto& one : cases) {
        const std::string kind = kind_of(one.first);
        CHECK_MESSAGE(has(kind, one.second), "expected '" << std::string(one.second) << "', got '" << kind << "'");
    }
    CHECK(kind_of("").empty());
    CHECK(kind_of("gguf").empty());
    CHECK(kind_of("FUGG\x01\x02").empty());
}

TEST_CASE("any bytes, of any length, are looked at without going past their end") {
    std::mt19937 random(8);
    for (int round = 0; round < 20000; ++round) {
        std::vector<char> head(random() % 40);
        for (char& c : head) c = static_cast<char>(random());
        // The sanitizers watch the bounds; the answer is only checked to be safe to print.
        for (const char c : gguf::describe_foreign(std::as_bytes(std::span(head))))
            REQUIRE(static_cast<unsigned char>(c) >= 0x20);
    }
}
