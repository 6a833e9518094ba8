// golden/models/*/hf: converted, then compared with the GGUF and the logits beside it; golden/hostile/safetensors; the rules of
// golden/tokenizers.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "colibri/convert/convert.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/model/architectures.hpp"
#include "support/golden.hpp"
#include "support/running.hpp"
#include "support/scratch.hpp"

namespace fs = std::filesystem;
namespace convert = colibri::convert;
using colibri::text::token_id;

namespace {

nlohmann::json read_json(const fs::path& path) {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
}

colibri::gguf::file open_gguf(const fs::path& path) {
    auto file = colibri::gguf::file::open(path);
    REQUIRE_MESSAGE(file, (file ? std::string() : file.error().text()));
    return *std::move(file);
}

fs::path converted(const fs::path& hf, const fs::path& to, convert::weight_type type, unsigned threads = 2) {
    convert::convert_options options;
    options.type = type;
    const auto made = convert::conversion::open(hf, options);
    REQUIRE_MESSAGE(made, (made ? std::string() : made.error().text()));
    convert::convert_write_options how;
    how.threads = threads;
    const auto written = made->write(to, how);
    REQUIRE_MESSAGE(written, (written ? std::string() : written.error().text()));
    return to;
}

/// The keys that describe model and tokenizer are the same; names and labels are free.
void check_metadata(const colibri::gguf::file& ours, const colibri::gguf::file& reference) {
    const std::set<std::string> free{"general.name", "general.size_label"};
    for (const auto& wanted : reference.meta().entries()) {
        const std::string& key = wanted.key;
        if (free.contains(key)) continue;
        const auto* found = ours.meta().find(key);
        CHECK_MESSAGE(found != nullptr, "no key " << key);
        if (found != nullptr) CHECK_MESSAGE(*found == wanted.value, "another value of " << key);
    }
    for (const auto& entry : ours.meta().entries()) {
        if (!free.contains(entry.key)) CHECK_MESSAGE(reference.meta().contains(entry.key), "an additional key " << entry.key);
    }
}

/// The same tensors, bit by bit.
void check_tensors(const colibri::gguf::file& ours, const colibri::gguf::file& reference) {
    CHECK(ours.tensors().size() == reference.tensors().size());
    const std::string our_bytes = scratch::read(ours.parts()[0].path), their_bytes = scratch::read(reference.parts()[0].path);
    for (const auto& tensor : reference.tensors()) {
        const auto* found = ours.find(tensor.name);
        CHECK_MESSAGE(found != nullptr, "no tensor " << tensor.name);
        if (found == nullptr) continue;
        CHECK_MESSAGE(found->type == tensor.type, "another type of " << tensor.name);
        CHECK_MESSAGE(found->dims == tensor.dims, "another shape of " << tensor.name);
        CHECK_MESSAGE(found->n_dims == tensor.n_dims, "another number of dimensions of " << tensor.name);
        CHECK_MESSAGE(our_bytes.substr(found->offset, found->bytes) == their_bytes.substr(tensor.offset, tensor.bytes),
                      "other values of " << tensor.name);
    }
}

void check_logits(const fs::path& file, const fs::path& folder, const nlohmann::json& info) {
    colibri::model_options how;
    how.holding = colibri::weights::holding::mapped;
    auto model = colibri::model::open(file, how);
    REQUIRE_MESSAGE(model, (model ? std::string() : model.error().text()));
    const auto reference = golden::read_npy(folder / "logits.npy");
    const double bound = info["bound"].get<double>();
    for (const auto& sequence : info["sequences"]) {
        const auto tokens = sequence["tokens"].get<std::vector<token_id>>();
        colibri::evaluator_options options;
        options.context = 512;
        options.ubatch = options.outputs = static_cast<std::uint32_t>(tokens.size());
        options.cache_k = options.cache_v = colibri::kv_type::f32;
        auto evaluator = colibri::evaluator::make(*model, options).value();
        const auto distance = golden::compare(golden::run_all(evaluator, tokens, tokens.size()), reference,
                                              sequence["first_row"].get<std::size_t>(), 2 * bound);
        CHECK_MESSAGE(distance.max <= bound, "max difference " << distance.max << ", bound " << bound);
        CHECK(distance.flips == 0);
        if (sequence.contains("text")) CHECK(model->tokenizer().encode(sequence["text"].get<std::string>()) == tokens);
    }
}

std::set<fs::path> model_folders(const fs::path& models) {
    std::set<fs::path> out;
    for (const auto& entry : fs::directory_iterator(models)) {
        if (fs::exists(entry.path() / "hf" / "config.json")) out.insert(entry.path());
    }
    return out;
}

/// Whether both names cut alike, by the engine's own table.
bool same_way(std::string_view a, std::string_view b) {
    const auto* x = colibri::text::find_pre_tokenizer(a);
    const auto* y = colibri::text::find_pre_tokenizer(b);
    return x != nullptr && y != nullptr && x->rules.data() == y->rules.data();
}

}  // namespace

TEST_CASE("published folders become the reference's GGUF") {
    const auto models = golden::folder("models");
    if (!models) return;
    golden::tally tally("models/*/hf");
    for (const auto& folder : model_folders(*models)) {
        CAPTURE(folder.filename().string());
        const auto info = read_json(folder / "case.json");
        if (!colibri::find_architecture(info["arch"].get<std::string>())) {
            const auto refused = convert::conversion::open(folder / "hf");
            REQUIRE(!refused);
            CHECK(refused.error().code == colibri::errc::unsupported);
            CHECK(refused.error().text().find("LlamaForCausalLM") != std::string::npos);  // the list of what can be converted
            tally.ran("refused");
            continue;
        }
        const scratch::folder work;
        const auto ours = open_gguf(converted(folder / "hf", work.path() / "f32.gguf", convert::weight_type::f32));
        const auto reference = open_gguf(folder / "model.gguf");
        check_metadata(ours, reference);
        check_tensors(ours, reference);
        if (fs::exists(folder / "logits.npy")) check_logits(work.path() / "f32.gguf", folder, info);
        // Threads and repetition change nothing.
        converted(folder / "hf", work.path() / "again.gguf", convert::weight_type::f32, 1);
        CHECK(scratch::read(work.path() / "again.gguf") == scratch::read(work.path() / "f32.gguf"));
        tally.ran("converted");
        for (const auto& [name, type] :
             {std::pair("f16", convert::weight_type::f16), std::pair("bf16", convert::weight_type::bf16)}) {
            const auto other = folder / (std::string("model-") + name + ".gguf");
            if (!fs::exists(other)) continue;
            check_tensors(open_gguf(converted(folder / "hf", work.path() / (std::string(name) + ".gguf"), type)),
                          open_gguf(other));
            tally.ran(name);
        }
    }
}

TEST_CASE("pre-tokenizers are recognised by their rules") {
    if (const auto models = golden::folder("models")) {
        golden::tally tally("models/*/hf/tokenizer.json");
        for (const auto& folder : model_folders(*models)) {
            CAPTURE(folder.filename().string());
            const auto file = folder / "hf" / "tokenizer.json";
            const auto tree = fs::exists(file) ? read_json(file) : nlohmann::json();
            if (!tree.is_object() || tree["decoder"]["type"] != "ByteLevel") continue;
            const auto expected = open_gguf(folder / "model.gguf").meta().get<std::string>("tokenizer.ggml.pre").value();
            const auto rules = convert::read_pre_rules(tree["pre_tokenizer"]);
            REQUIRE_MESSAGE(rules, (rules ? std::string() : rules.error().text()));
            const auto found = convert::matching_pre_tokenizers(*rules);
            REQUIRE(!found.empty());
            for (const auto* one : found) CHECK_MESSAGE(same_way(one->name, expected), one->name << " is not " << expected);
            tally.ran("recognised");
        }
    }
    if (const auto index = golden::folder("tokenizers/pre/index.json")) {
        golden::tally tally("tokenizers/pre/index.json");
        const auto all = read_json(*index);
        for (const auto& item : all.items()) {
            const std::string name = item.key();
            const auto& entry = item.value();
            CAPTURE(name);
            nlohmann::json rules = nlohmann::json::array();
            for (const auto& pattern : entry["rules"])
                rules.push_back(
                    {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
            rules.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
            const auto read = convert::read_pre_rules({{"type", "Sequence"}, {"pretokenizers", rules}});
            REQUIRE_MESSAGE(read, (read ? std::string() : read.error().text()));
            const auto found = convert::matching_pre_tokenizers(*read);
            REQUIRE(!found.empty());
            for (const auto* one : found) CHECK_MESSAGE(same_way(one->name, name), one->name << " is not " << name);
            tally.ran("recognised");
        }
    }
}

TEST_CASE("hostile safetensors") {
    const auto folder = golden::folder("hostile/safetensors");
    if (!folder) return;
    golden::tally tally("hostile/safetensors");
    std::ifstream lines(*folder / "manifest.jsonl");
    for (std::string line; std::getline(lines, line);) {
        const auto info = nlohmann::json::parse(line);
        const auto name = info["file"].get<std::string>();
        CAPTURE(name);
        auto source = colibri::file_reader::open(*folder / name);
        REQUIRE(source);
        const auto read = convert::read_safetensors(**source);
        const auto expect = info["expect"].get<std::string>();
        if (expect == "load") CHECK_MESSAGE(read, (read ? std::string() : read.error().text()));
        if (expect == "refuse") {
            REQUIRE(!read);
            const auto text = read.error().text();
            if (info["detail"].is_string())
                CHECK_MESSAGE(text.find(info["detail"].get<std::string>()) != std::string::npos, text);
            for (const char c : text) CHECK_MESSAGE(static_cast<unsigned char>(c) >= 0x20, text);
        }
        tally.ran(expect);
    }
}
