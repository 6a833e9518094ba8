// Every encoder writes the golden bytes where there are some, and errs no more than the reference encoder.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colibri/quant/encode_tensor.hpp"
#include "support/golden.hpp"

namespace {

using namespace colibri;
namespace fs = std::filesystem;

constexpr std::size_t columns = 1024;

std::vector<char> bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE_MESSAGE(file, "can't open " << path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> floats_of(const fs::path& path) {
    const auto bytes = bytes_of(path);
    std::vector<float> out(bytes.size() / sizeof(float));
    REQUIRE(out.size() % columns == 0);
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
    return out;
}

std::optional<dtype> type_of(const std::string& shown) {
    for (const auto& row : dtype_table) {
        if (row.name == shown) return row.type;
    }
    return std::nullopt;
}

std::vector<std::byte> encoded(dtype type, std::span<const float> input, std::span<const float> importance) {
    const std::size_t row_bytes = quant::row_bytes(type, columns).value();
    std::vector<std::byte> out(input.size() / columns * row_bytes);
    for (std::size_t r = 0; r < input.size() / columns; ++r) {
        quant::encode_row(type, input.subspan(r * columns, columns), importance, std::span(out).subspan(r * row_bytes, row_bytes))
            .value();
    }
    return out;
}

/// Root mean square of the error, each weighed by its column's importance if there is any.
double error_of(dtype type, std::span<const float> input, std::span<const std::byte> bytes, std::span<const float> importance) {
    std::vector<float> decoded(input.size());
    quant::decode_row(type, bytes, decoded).value();
    double sum = 0;
    double weights = 0;
    for (std::size_t i = 0; i < input.size(); ++i) {
        const double w = importance.empty() ? 1.0 : importance[i % columns];
        sum += w * std::pow(static_cast<double>(decoded[i]) - input[i], 2);
        weights += w;
    }
    return std::sqrt(sum / weights);
}

}  // namespace

TEST_CASE("encoders: the golden bytes, and errors not above the reference encoder's") {
    const auto folder = golden::folder("blocks/encode");
    if (!folder) return;
    golden::tally tally("blocks/encode by row");
    const auto input = floats_of(*folder / "input.f32");
    const auto importance = floats_of(*folder / "importance.f32");
    REQUIRE(importance.size() == columns);
    // 1.005: the bound that the golden folder states.
    constexpr double allowed = 1.005;

    const auto text = bytes_of(*folder / "errors.json");
    const auto errors = nlohmann::json::parse(text);
    for (const auto& item : errors.items()) {
        const std::string& shown = item.key();
        CAPTURE(shown);
        const auto type = type_of(shown);
        REQUIRE(type);
        if (!quant::is_encodable(*type)) {
            MESSAGE("not run: there is no encoder for " << shown);
            tally.not_yet(shown);
            continue;
        }
        CHECK(quant::needs_importance(*type) == !item.value().contains("plain"));
        if (item.value().contains("plain")) {
            const auto bytes = encoded(*type, input, {});
            CHECK(error_of(*type, input, bytes, {}) <= allowed * item.value().at("plain").at("rms").get<double>());
            tally.ran("plain");
            if (const auto path = *folder / (shown + ".bin"); fs::exists(path)) {
                const auto expected = bytes_of(path);
                REQUIRE(expected.size() == bytes.size());
                CHECK(std::memcmp(expected.data(), bytes.data(), bytes.size()) == 0);
                tally.ran("bytes");
            }
        }
        const auto bytes = encoded(*type, input, importance);
        const double reference = item.value().at("importance").at("weighted_rms").get<double>();
        CHECK(error_of(*type, input, bytes, importance) <= allowed * reference);
        tally.ran("importance");
    }
}
