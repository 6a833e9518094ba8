#include "colibri/weights/file_store.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "support/scratch.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;
using namespace colibri::weights;

TEST_CASE("weights: a mapped store leases the file's bytes") {
    const auto file = gguf::file::open(tiny::path("mixtral")).value();
    const auto bytes = mapped_file::open(tiny::path("mixtral")).value();
    std::vector<group> groups;
    for (tensor_id id = 0; id < file.tensors().size(); ++id) groups.push_back({access::whole, {id}});
    std::vector<std::string> notes;
    auto mapped = file_store::open(file, groups, false, notes).value();
    CHECK(mapped->memory().mapped >= file.tensor_bytes());
    CHECK(mapped->memory().resident == 0);
    for (group_id g = 0; g < groups.size(); ++g) {
        const auto& info = file.tensors()[g];
        auto a = mapped->acquire(g).value();
        CHECK(a[0].type() == info.type);
        CHECK(a[0].layout() == layout::file);
        CHECK(a[0].bytes() == info.bytes);
        CHECK(std::memcmp(a[0].data(), bytes.bytes().data() + info.offset, a[0].bytes()) == 0);
        for (std::uint32_t e = 0; e < info.dims[2]; ++e) {
            const auto x = a.expert(0, e);
            CHECK(x.rows() == info.dims[1]);
            CHECK(x.data() == a[0].data() + e * x.bytes());
        }
        row_piece pieces[8];
        CHECK(a.take(1, pieces).value() == 1);
        CHECK(pieces[0].rows.data() == a[0].data());
        CHECK(pieces[0].rows.rows() == a[0].rows());
        CHECK(a.take(1, pieces).value() == 0);
    }
    CHECK(notes.empty());
}

TEST_CASE("weights: a lease can be moved and ends once") {
    const auto file = gguf::file::open(tiny::path("llama")).value();
    std::vector<std::string> notes;
    auto store = file_store::open(file, {{access::whole, {0}}}, false, notes).value();
    auto a = store->acquire(0).value();
    const auto* data = a[0].data();
    lease b = std::move(a);
    CHECK(b[0].data() == data);
    b = store->acquire(0).value();
    CHECK(b[0].data() == data);
}

TEST_CASE("weights: locked pages are counted as such, or a note says why not") {
    const auto file = gguf::file::open(tiny::path("llama")).value();
    std::vector<std::string> notes;
    const auto store = file_store::open(file, {{access::whole, {0}}}, true, notes);
    REQUIRE(store);
    CHECK(notes.size() <= 1);
    if (notes.size() == 1) CHECK(notes[0].find("ulimit -l") != std::string::npos);
}

TEST_CASE("weights: a file that has become shorter since its header was read is refused") {
    const scratch::folder folder;
    const auto copy = folder.path() / "short.gguf";
    std::filesystem::copy_file(tiny::path("llama"), copy, std::filesystem::copy_options::overwrite_existing);
    const auto file = gguf::file::open(copy).value();
    std::filesystem::resize_file(copy, std::filesystem::file_size(copy) - 100);
    std::vector<std::string> notes;
    const auto refused = file_store::open(file, {{access::whole, {0}}}, false, notes);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::truncated);
}
