#include "colibri/model/matrix_products.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "colibri/weights/open_store.hpp"
#include "support/scratch.hpp"
#include "weights/sample_file.hpp"

using namespace colibri;
using namespace colibri::weights;

TEST_CASE("products that are cut into parts have the same bits, and cancelling ends them") {
    // 2048 x 4099 weights times 300 columns are 2.5 * 10^9 multiply-adds, more than one part has; no multiple of a part's rows.
    constexpr std::size_t k = 2048;
    constexpr std::size_t rows = 4099;
    constexpr std::size_t columns = 300;
    const scratch::folder folder;
    const auto path = folder.path() / "large.gguf";
    write_samples(path, {{"large", dtype::q8_0, {k, rows}}});
    const auto file = gguf::file::open(path).value();
    const std::vector<group> groups = {{access::whole, {0}, demand::each_sweep}};
    std::vector<float> x(k * columns);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 2654435761u >> 20 & 1023) - 512);
    thread_pool pool(2);
    auto input = simd::activations::make(columns, k).value();
    std::vector<std::string> notes;
    for (const auto how : {holding::mapped, holding::resident}) {
        CAPTURE(name(how));
        const auto store = open_store(file, groups, {how, false, {}, {}}, notes).value();
        std::vector<float> whole(rows * columns);
        std::vector<float> parts(rows * columns);
        auto lease = store->acquire(0).value();
        input.assign(x.data(), columns, k, k);
        simd::product(lease[0], input, whole.data(), rows, pool);
        input.assign(x.data(), columns, k, k);
        REQUIRE(multiply(lease, {0, parts.data(), rows}, input, pool, nullptr));
        CHECK(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)) == 0);  // NaNs of random weights too

        lease = {};
        lease = store->acquire(0).value();
        cancel_flag cancel;
        cancel.request();
        const auto ended = multiply(lease, {0, parts.data(), rows}, input, pool, &cancel);
        REQUIRE(!ended);
        CHECK(ended.error().code == errc::canceled);
    }
}
