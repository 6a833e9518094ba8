#include "colibri/model/roofline.hpp"

#include <doctest/doctest.h>

#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

/// Bytes and elements of all matrices but the embedding's rows, counted by name; experts apart.
struct sums {
    double bytes = 0.0, elements = 0.0, head_elements = 0.0, expert_bytes = 0.0, expert_elements = 0.0;
};

sums count(const model& m) {
    sums out;
    const bool tied = m.file().find("output.weight") == nullptr;
    for (const auto& tensor : m.file().tensors()) {
        if (tensor.n_dims < 2) continue;
        const auto bytes = static_cast<double>(tensor.bytes);
        const auto elements = static_cast<double>(tensor.elements());
        if (tensor.name == "token_embd.weight" ? tied : tensor.name == "output.weight") out.head_elements = elements;
        if (tensor.name == "token_embd.weight" && !tied) continue;
        if (tensor.name.find("_exps.") != std::string::npos) {
            out.expert_bytes += bytes;
            out.expert_elements += elements;
        } else {
            out.bytes += bytes;
            out.elements += elements;
        }
    }
    return out;
}

}  // namespace

TEST_CASE("roofline: a decoded token reads every matrix once and the cache up to itself") {
    for (const auto* name : {"llama", "gemma3"}) {
        CAPTURE(name);
        const auto m = tiny::open(name);
        const auto& h = m.params();
        const roofline roof(m, kv_type::f16, kv_type::f16, {.bandwidth = 1e9, .integer_peak = 1e12, .float_peak = 1e12});
        const auto all = count(m);
        const double row = 2.0 * h.kv_heads * (h.head_k + h.head_v) * h.layers;
        CHECK(roof.bytes_per_token() == doctest::Approx(all.bytes + row));
        const auto w = roof.sweep(1, 4, 1, 1);
        CHECK(w.bytes == doctest::Approx(all.bytes + 5 * row));
        const double attention = 5.0 * h.heads * (h.head_k + h.head_v) * h.layers;
        CHECK(w.integer_madds + w.float_madds == doctest::Approx(all.elements + attention));
        CHECK(w.seconds == doctest::Approx(w.bytes / 1e9));
        // Two sequences share the weights, not the cache.
        CHECK(roof.sweep(1, 4, 2, 2).bytes == doctest::Approx(all.bytes + 10 * row));
        CHECK(roof.decode(3, 4).bytes == doctest::Approx(3 * all.bytes + (5 + 6 + 7) * row));
    }
}

TEST_CASE("roofline: a prompt reads the weights once in each ubatch and computes the head once") {
    const auto m = tiny::open("llama");
    const auto all = count(m);
    const auto& h = m.params();
    const roofline roof(m, kv_type::f16, kv_type::f16, {.bandwidth = 1e15, .integer_peak = 1e9, .float_peak = 2e9});
    const auto w = roof.prompt(20, 0, 8);
    const double row = 2.0 * h.kv_heads * (h.head_k + h.head_v) * h.layers;
    const double head_bytes = w.bytes - (8 + 16 + 20) * row;
    CHECK(head_bytes > 2 * all.bytes);
    CHECK(head_bytes < 3 * all.bytes);
    const double attention = 210.0 * h.heads * (h.head_k + h.head_v) * h.layers;  // 1 + 2 + ... + 20
    CHECK(w.integer_madds + w.float_madds ==
          doctest::Approx(20 * (all.elements - all.head_elements) + all.head_elements + attention));
    CHECK(w.seconds == doctest::Approx(w.integer_madds / 1e9 + w.float_madds / 2e9));
}

TEST_CASE("roofline: windows end what attention reads") {
    const auto m = tiny::open("gemma3");
    std::size_t windows = 0;
    std::uint32_t window = 0;
    for (const auto& layer : m.config().layers) {
        if (layer.window == 0) continue;
        ++windows;
        window = layer.window;
    }
    REQUIRE(windows > 0);
    const roofline roof(m, kv_type::f16, kv_type::f16, {1e9, 1e9, 1e9});
    const auto& h = m.params();
    const double row = 2.0 * h.kv_heads * (h.head_k + h.head_v);
    const std::uint32_t past = window + 100;
    const double grown = roof.sweep(1, past + 10, 1, 1).bytes - roof.sweep(1, past, 1, 1).bytes;
    CHECK(grown == doctest::Approx(10 * row * static_cast<double>(h.layers - windows)));
}

TEST_CASE("roofline: of a mixture one token reads the experts it uses, many tokens nearly all") {
    const auto m = tiny::open("mixtral");
    const auto all = count(m);
    const auto& h = m.params();
    REQUIRE(all.expert_bytes > 0.0);
    const roofline roof(m, kv_type::f16, kv_type::f16, {1e9, 1e9, 1e9});
    const double share = static_cast<double>(h.experts_used) / h.experts;
    const double row = 2.0 * h.kv_heads * (h.head_k + h.head_v) * h.layers;
    CHECK(roof.bytes_per_token() == doctest::Approx(all.bytes + all.expert_bytes * share + row));
    CHECK(roof.sweep(200, 0, 1, 1).bytes == doctest::Approx(all.bytes + all.expert_bytes + 200 * row).epsilon(1e-6));
}
