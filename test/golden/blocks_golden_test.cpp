// Every format's bytes mean the golden values, and every encoder writes the golden bytes.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "colibri/quant/format_list.hpp"
#include "colibri/quant/rows.hpp"
#include "support/fma.hpp"
#include "support/golden.hpp"

namespace {

using namespace colibri;
namespace fs = std::filesystem;

std::vector<char> bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE_MESSAGE(file, "can't open " << path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::vector<T> array_of(const fs::path& path) {
    const auto bytes = bytes_of(path);
    REQUIRE_MESSAGE(bytes.size() % sizeof(T) == 0, path.string() << " has no whole number of elements");
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(static_cast<void*>(out.data()), bytes.data(), bytes.size());
    return out;
}

nlohmann::json json_of(const fs::path& path) {
    const auto text = bytes_of(path);
    return nlohmann::json::parse(text);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::size_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
    std::size_t i = 0;
    while (i < a.size() && i < b.size() && std::memcmp(&a[i], &b[i], sizeof(float)) == 0) ++i;
    return i;
}

/// Calls fn(std::type_identity<F>{}) for the format of this name; false if there is none.
template <class Fn>
bool with_format(const std::string& type, Fn&& fn) {
    bool found = false;
    quant::for_each_format(quant::weight_formats{}, [&]<class F>(std::type_identity<F> format) {
        if (name(F::type) != type) return;
        found = true;
        fn(format);
    });
    return found;
}

double rms(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
    return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace

TEST_CASE("blocks: decoding gives the golden values bit for bit") {
    const auto folder = golden::folder("blocks");
    if (!folder) return;
    golden::tally tally("blocks");
    const auto index = json_of(*folder / "index.json");
    for (const auto& item : index.items()) {
        const std::string type = item.key();
        const auto& entry = item.value();
        CAPTURE(type);
        const bool known = with_format(type, [&]<class F>(std::type_identity<F>) {
            CHECK(entry.at("block").get<std::size_t>() == F::block_size);
            CHECK(entry.at("bytes").get<std::size_t>() == sizeof(F));
            CHECK(entry.at("id").get<std::uint32_t>() == static_cast<std::uint32_t>(F::type));
            const auto blocks = array_of<F>(*folder / (type + ".bin"));
            const auto expected = array_of<float>(*folder / (type + ".f32"));
            REQUIRE(blocks.size() == entry.at("blocks").get<std::size_t>());
            REQUIRE(expected.size() == blocks.size() * F::block_size);

            std::vector<float> typed(expected.size());
            quant::decode_row(blocks.data(), typed.size(), typed.data());
            CHECK_MESSAGE(same_bits(typed, expected),
                          "first difference at value " << first_difference(typed, expected));

            std::vector<float> erased(expected.size());
            const auto raw = bytes_of(*folder / (type + ".bin"));
            quant::decode_row(F::type, std::as_bytes(std::span(raw)), erased).value();
            CHECK(same_bits(erased, expected));

            if (test_support::has_fma()) {
                std::vector<float> fused(expected.size());
                test_support::with_fma([&] { quant::decode_row(blocks.data(), fused.size(), fused.data()); });
                CHECK_MESSAGE(same_bits(fused, expected), "the compiler's fusing changes the values");
            } else {
                MESSAGE("not run: decoding as compiled for FMA, which this CPU doesn't have");
            }
            tally.ran("decode", blocks.size());
        });
        if (!known) tally.not_yet("decode/" + type);
    }
}

TEST_CASE("blocks: encoding gives the golden bytes and no larger errors") {
    const auto folder = golden::folder("blocks/encode");
    if (!folder) return;
    golden::tally tally("blocks/encode");
    const auto input = array_of<float>(*folder / "input.f32");

    const auto encoded = [&]<class F>(std::type_identity<F>) {
        std::vector<F> blocks(input.size() / F::block_size);
        quant::encode_row(input.data(), input.size(), blocks.data());
        return blocks;
    };

    for (const auto& entry : fs::directory_iterator(*folder)) {
        if (entry.path().extension() != ".bin") continue;
        const std::string type = entry.path().stem().string();
        CAPTURE(type);
        bool ran = false;
        with_format(type, [&]<class F>(std::type_identity<F> format) {
            if constexpr (quant::encodable_format<F>) {
                const auto expected = bytes_of(entry.path());
                const auto blocks = encoded(format);
                REQUIRE(expected.size() == blocks.size() * sizeof(F));
                CHECK(std::memcmp(expected.data(), blocks.data(), expected.size()) == 0);

                std::vector<std::byte> erased(expected.size());
                quant::encode_row(F::type, input, erased).value();
                CHECK(std::memcmp(expected.data(), erased.data(), expected.size()) == 0);

                if (test_support::has_fma()) {
                    std::vector<F> fused(blocks.size());
                    test_support::with_fma([&] { quant::encode_row(input.data(), input.size(), fused.data()); });
                    CHECK_MESSAGE(std::memcmp(expected.data(), fused.data(), expected.size()) == 0,
                                  "the compiler's fusing changes the bytes");
                } else {
                    MESSAGE("not run: encoding as compiled for FMA, which this CPU doesn't have");
                }
                tally.ran("bytes", blocks.size());
                ran = true;
            }
        });
        if (!ran) tally.not_yet("bytes/" + type);
    }

    const auto errors = json_of(*folder / "errors.json");
    for (const auto& item : errors.items()) {
        const std::string type = item.key();
        const auto& kinds = item.value();
        CAPTURE(type);
        if (kinds.contains("plain")) {
            bool ran = false;
            with_format(type, [&]<class F>(std::type_identity<F> format) {
                if constexpr (quant::encodable_format<F>) {
                    const auto blocks = encoded(format);
                    std::vector<float> decoded(input.size());
                    quant::decode_row(blocks.data(), decoded.size(), decoded.data());
                    // 1.005: the bound that the golden folder states.
                    CHECK(rms(input, decoded) <= 1.005 * kinds.at("plain").at("rms").get<double>());
                    tally.ran("errors");
                    ran = true;
                }
            });
            if (!ran) tally.not_yet("errors/" + type);
        }
        if (kinds.contains("importance")) tally.not_yet("importance/" + type);
    }
}
