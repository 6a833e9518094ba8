// What headers cost in memory: big vocabularies little, and claims nothing.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "colibri/gguf/file.hpp"
#include "support/counting_new.hpp"
#include "support/gguf_bytes.hpp"
#include "support/processor_time.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using namespace gguf_bytes;

TEST_CASE("a vocabulary of 262,144 texts and scores costs a few heap blocks and little more than its bytes") {
    constexpr std::uint64_t tokens = 262144;
    std::string texts = le(8u) + le(tokens);
    std::string scores = le(6u) + le(tokens);
    for (std::uint64_t i = 0; i < tokens; ++i) {
        texts += text("token " + std::to_string(i));
        scores += le(static_cast<float>(i));
    }
    const scratch::folder folder;
    const auto path = folder.put("v.gguf", file({key("tokens", 9, texts), key("scores", 9, scores)}, {}, ""));
    const std::size_t before = counting::now;
    counting::restart();
    auto got = gguf::file::open(path);
    REQUIRE(got);
    CHECK(counting::blocks < 200);
    // Bytes of both arrays, 4 more for the place of each text, and one part of growing room.
    CHECK(counting::now - before < texts.size() + scores.size() + 4 * tokens + 200000);
    CHECK(counting::peak - before < 3 * (texts.size() + scores.size()));
    counting::restart();
    const auto* found = got->meta().find("tokens");
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < found->size(); ++i) bytes += found->text_at(i).size();
    CHECK(bytes == texts.size() - 12 - 8 * tokens);
    CHECK(counting::blocks == 0);  // walking through them takes none
    CHECK(found->text_at(77777) == "token 77777");
}

TEST_CASE("counts that a huge file could hold are refused at once too") {
    const scratch::folder folder;
    constexpr std::uint64_t size = std::uint64_t{20} << 30;
    const std::vector<std::string> headers = {
        file({key("bytes", 9, le(0u) + le(std::uint64_t{15000000000}))}, {}, ""),
        file({key("numbers", 9, le(12u) + le(std::uint64_t{2000000000}))}, {}, ""),
        file({key("texts", 9, le(8u) + le(std::uint64_t{1000000000}))}, {}, ""),
        file({key("arrays", 9, le(9u) + le(std::uint64_t{1000000000}))}, {}, ""),
        file({key("text", 8, le(std::uint64_t{19000000000}))}, {}, ""),
        "GGUF" + le(3u) + le(std::uint64_t{100000000}) + le(std::uint64_t{0}),
        "GGUF" + le(3u) + le(std::uint64_t{0}) + le(std::uint64_t{100000000}),
    };
    for (const auto& header : headers) {
        const auto path = folder.put("sparse.gguf", header);
        if (::truncate(path.c_str(), static_cast<::off_t>(size)) != 0) {
            MESSAGE("skipped: no files with holes here");
            return;
        }
        const std::size_t before = counting::now;
        counting::restart();
        const double start = processor_seconds();
        auto got = gguf::file::open(path);
        CHECK(processor_seconds() - start < 3.0);  // milliseconds, where reading it all takes longer than this
        CHECK(counting::peak - before < std::size_t{1} << 20);
        REQUIRE(!got);
    }
}
