// Every sampler step against the golden cases: the same tokens stay, with the same logits and probabilities.
#include "support/golden.hpp"

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "colibri/gguf/file.hpp"
#include "colibri/sampling/chain.hpp"

using namespace colibri;
using namespace colibri::sampling;
using nlohmann::json;

namespace {

/// The bytes of a byte-level BPE token: printable Latin-1 characters stand for themselves, the other bytes for U+0100
/// on.
std::string bytes_of(std::string_view token) {
    static const std::map<char32_t, char> byte_of = [] {
        std::map<char32_t, char> map;
        char32_t next = 0x100;
        for (unsigned b = 0; b < 256; ++b) {
            const bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
            map[itself ? b : next++] = static_cast<char>(b);
        }
        return map;
    }();
    std::string out;
    for (std::size_t i = 0; i < token.size();) {
        const auto byte = static_cast<unsigned char>(token[i]);
        char32_t code = byte;
        if (byte >= 0xc0) code = (char32_t{byte} & 0x1f) << 6 | (static_cast<unsigned char>(token[i + 1]) & 0x3f);
        i += byte >= 0xc0 ? 2 : 1;
        out += byte_of.at(code);
    }
    return out;
}

/// Pieces of the vocabulary that the cases' breakers are cut by.
std::vector<std::string> tiny_pieces() {
    const auto file = gguf::file::open(golden::root() / "tiny" / "tiny.gguf");
    REQUIRE(file);
    const auto tokens = file->meta().get_array<std::string>("tokenizer.ggml.tokens");
    REQUIRE(tokens);
    std::vector<std::string> out;
    for (const auto& token : *tokens) out.push_back(bytes_of(token));
    return out;
}

std::optional<any_step> make(const json& step, std::size_t index) {
    const std::string name = step[0];
    const auto number = [&](std::size_t i) { return step.at(i).get<float>(); };
    const auto count = [&](std::size_t i) { return step.at(i).get<std::int32_t>(); };
    const auto keep = [&](std::size_t i) { return step.at(i).get<std::size_t>(); };
    if (name == "top_k") return top_k{count(1)};
    if (name == "top_p") return top_p{number(1), keep(2)};
    if (name == "min_p") return min_p{number(1), keep(2)};
    if (name == "typical") return typical{number(1), keep(2)};
    if (name == "temperature") return temperature{number(1)};
    if (name == "dynamic_temperature") return dynamic_temperature{number(1), number(2), number(3)};
    if (name == "top_n_sigma") return top_n_sigma{number(1)};
    if (name == "xtc") return xtc{number(1), number(2), keep(3), index};
    if (name == "penalties") return penalties{count(1), number(2), number(3), number(4)};
    if (name == "dry") {
        const dry_settings settings{number(1), number(2), count(3), count(4)};
        if (step.size() < 6) return dry{settings};
        static const auto pieces = tiny_pieces();
        return dry{settings, dry_breakers{step[5].get<std::vector<std::string>>(), pieces.size(), [](token_id id) {
                                              return std::string_view(pieces[static_cast<std::size_t>(id)]);
                                          }}};
    }
    if (name == "logit_bias") {
        std::vector<bias> biases;
        for (const auto& pair : step[1]) biases.push_back({pair[0].get<token_id>(), pair[1].get<float>()});
        return logit_bias{biases};
    }
    return std::nullopt;
}

}  // namespace

TEST_CASE("sampler steps match the golden cases") {
    const auto path = golden::folder("samplers");
    if (!path) return;
    golden::tally tally("samplers");
    std::ifstream in(*path / "cases.json");
    REQUIRE(in);
    const json cases = json::parse(in);
    double worst_logit = 0.0;
    double worst_probability = 0.0;
    std::size_t index = 0;
    for (const auto& one : cases) {
        step_list steps;
        std::set<std::string> kinds;
        bool known = true;
        for (const auto& spec : one["chain"]) {
            const auto made = make(spec, index);
            if (!made) {
                tally.not_yet(spec[0].get<std::string>());
                known = false;
                break;
            }
            kinds.insert(spec[0].get<std::string>());
            steps.add(*made);
        }
        ++index;
        if (!known) continue;
        INFO("case ", index - 1, " ", one["chain"].dump());
        for (const auto& token : one["history"]) steps.accept(token.get<token_id>());

        const auto logits = one["logits"].get<std::vector<float>>();
        candidates got(logits);
        steps(got);
        got.sort();
        got.normalize();
        CHECK(got.size() == one["kept"].get<std::size_t>());
        std::map<token_id, candidate> by_id;
        for (const auto& c : got) by_id[c.id] = c;
        float lowest = 0.0f;
        for (const auto& row : one["result"]) {
            const auto found = by_id.find(row[0].get<token_id>());
            REQUIRE(found != by_id.end());
            const auto logit = row[1].get<double>();
            const auto probability = row[2].get<double>();
            // The golden data's own bound, and half a unit of the 5 decimals that it was written with.
            const double off = std::max(std::abs(static_cast<double>(found->second.logit) - logit) - 5e-6, 0.0);
            CHECK(off <= 1e-4 * std::abs(logit));
            CHECK(std::abs(static_cast<double>(found->second.probability) - probability) <= 1e-5);
            worst_logit = std::max(worst_logit, off / std::max(std::abs(logit), 1e-9));
            worst_probability =
                std::max(worst_probability, std::abs(static_cast<double>(found->second.probability) - probability));
            lowest = found->second.logit;
        }
        // The list has the best 60; whatever of ours is better than its last one must be in it.
        std::size_t listed = 0;
        for (const auto& c : got) listed += c.logit > lowest ? 1 : 0;
        CHECK(listed < std::max<std::size_t>(one["result"].size(), 1));
        tally.ran(kinds.size() > 1 ? "chain" : *kinds.begin());
    }
    std::cout << "golden: samplers: largest distance of a logit (relative) " << worst_logit << ", of a probability "
              << worst_probability << '\n';
}
