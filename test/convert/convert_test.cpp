// A whole conversion: folders that are odd or broken, and what is written.
#include "colibri/convert/convert.hpp"

#include <limits>

#include "convert/support.hpp"

using namespace colibri;
using convert::weight_type;
using folders::copy;
using folders::has_note;
using folders::json;
using folders::opened;
using folders::refused;
namespace fs = std::filesystem;

namespace {

convert::convert_options as(weight_type type) {
    convert::convert_options options;
    options.type = type;
    return options;
}

/// The golden llama with one of its tensors changed: made of one file with all of them.
class edited_llama {
public:
    edited_llama() : hf("llama") {
        auto files = convert::weight_files::open(hf.path());
        for (const auto& [name, tensor] : files->tensors()) {
            std::string bytes(static_cast<std::size_t>(tensor.stored.bytes), '\0');
            REQUIRE(files->read(tensor, 0, std::as_writable_bytes(std::span(bytes))));
            tensors.push_back({name, std::string(convert::name(tensor.stored.type)), tensor.stored.shape, bytes});
        }
        for (const auto& path : files->paths()) fs::remove(path);
        fs::remove(hf.path() / "model.safetensors.index.json");
    }
    folders::tensor& operator[](const std::string& name) {
        for (auto& one : tensors) {
            if (one.name == name) return one;
        }
        FAIL("no tensor " << name);
        return tensors[0];
    }
    void save() const { scratch::write(hf.path() / "model.safetensors", folders::safetensors_file(tensors)); }
    void set(const std::string& name, std::size_t i, float value) {
        std::memcpy((*this)[name].bytes.data() + i * 4, &value, 4);
        save();
    }

    copy hf;
    std::vector<folders::tensor> tensors;
};

gguf::file written(const convert::conversion& made, const fs::path& to, convert::convert_write_options how = {}) {
    const auto done = made.write(to, how);
    REQUIRE_MESSAGE(done, (done ? std::string() : done.error().text()));
    auto file = gguf::file::open(to);
    REQUIRE_MESSAGE(file, (file ? std::string() : file.error().text()));
    return *std::move(file);
}

}  // namespace

TEST_CASE("convert: types") {
    edited_llama llama;
    llama.save();
    CHECK(opened(llama.hf.path()).type() == weight_type::f32);
    CHECK(opened(copy("qwen3").path()).type() == weight_type::bf16);
    const auto file = written(opened(llama.hf.path(), as(weight_type::q8_0)), llama.hf.target());
    CHECK(file.find("blk.0.attn_q.weight")->type == dtype::q8_0);
    CHECK(file.find("blk.0.attn_norm.weight")->type == dtype::f32);
    CHECK(file.meta().get<std::uint32_t>("general.file_type").value() == 7);
    // The bytes are those that the block's own encoder makes of the F32 conversion.
    const auto plain = written(opened(llama.hf.path(), as(weight_type::f32)), llama.hf.work() / "f32.gguf");
    const auto bytes = scratch::read(llama.hf.target()), wide = scratch::read(llama.hf.work() / "f32.gguf");
    const auto* q = file.find("blk.1.attn_q.weight");
    std::vector<float> values(q->elements());
    std::memcpy(values.data(), wide.data() + plain.find(q->name)->offset, values.size() * 4);
    std::vector<std::byte> expected(q->bytes);
    REQUIRE(quant::encode_row(dtype::q8_0, values, expected));
    CHECK(std::memcmp(expected.data(), bytes.data() + q->offset, expected.size()) == 0);
    // Rows that are no multiple of 32 become F16: head_dim 8 makes attn_output's rows 32 wide, feed-forward 40 is no multiple.
    copy odd("qwen2");
    odd.change("config.json", [](json& c) { c["intermediate_size"] = 95; });
    CHECK(refused(odd.path()).code == errc::bad_shape);
    for (auto& tensor : llama.tensors) {
        if (tensor.name.find("mlp.") == std::string::npos) continue;
        auto& dim = tensor.shape[tensor.name.find("down") != std::string::npos ? 1 : 0];
        dim = 40;
        tensor.bytes.resize(40 * 64 * 4);
    }
    llama.save();
    llama.hf.change("config.json", [](json& c) { c["intermediate_size"] = 40; });
    const auto narrow = opened(llama.hf.path(), as(weight_type::q8_0));
    for (const auto& tensor : narrow.tensors()) {
        if (tensor.info.name == "blk.0.ffn_down.weight") CHECK(tensor.info.type == dtype::f16);
        if (tensor.info.name == "blk.0.ffn_up.weight") CHECK(tensor.info.type == dtype::q8_0);
    }
}

TEST_CASE("convert: weights that are no numbers, or too large, stop with the tensor's name") {
    for (const auto& [value, type, part] :
         {std::tuple(std::numeric_limits<float>::quiet_NaN(), weight_type::f32, "not a number"),
          std::tuple(std::numeric_limits<float>::infinity(), weight_type::bf16, "infinite"),
          std::tuple(70000.0f, weight_type::f16, "too large"), std::tuple(1e7f, weight_type::q8_0, "too large"),
          std::tuple(3.4e38f, weight_type::bf16, "too large")}) {
        CAPTURE(part);
        edited_llama llama;
        llama.set("model.layers.1.mlp.up_proj.weight", 130, value);
        const auto done = opened(llama.hf.path(), as(type)).write(llama.hf.target());
        REQUIRE(!done);
        CHECK(done.error().code == errc::bad_value);
        CHECK(done.error().text().find("model.layers.1.mlp.up_proj.weight") != std::string::npos);
        CHECK(done.error().text().find(part) != std::string::npos);
        CHECK(done.error().text().find("row 2") != std::string::npos);
        CHECK(scratch::count(llama.hf.work()) == 1);  // neither a file nor a temporary one
    }
    edited_llama llama;
    llama.set("model.layers.1.mlp.up_proj.weight", 130, 65504.0f);
    CHECK(opened(llama.hf.path(), as(weight_type::f16)).write(llama.hf.target()));
}

TEST_CASE("convert: tensors must be there, of the right shape, and have a place") {
    edited_llama llama;
    const auto tensors = llama.tensors;
    const auto code = [&](const std::string& part) {
        llama.save();
        const auto e = refused(llama.hf.path());
        CHECK_MESSAGE(e.text().find(part) != std::string::npos, e.text());
        llama.tensors = tensors;
        return e.code;
    };
    llama["model.layers.1.mlp.up_proj.weight"].shape = {64, 96};
    CHECK(code("model.layers.1.mlp.up_proj.weight") == errc::bad_shape);
    llama["model.layers.1.mlp.up_proj.weight"].dtype = "I32";
    CHECK(code("I32") == errc::unsupported);
    llama["model.norm.weight"].name = "model.norm.weights";
    CHECK(code("model.norm.weight") == errc::missing_tensor);
    llama.tensors.push_back({"model.layers.0.surprise", "F32", {1}, std::string(4, '\0')});
    CHECK(code("surprise") == errc::unsupported);
    llama["lm_head.weight"].name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    CHECK(code("lm_head.weight") == errc::missing_tensor);  // config.json says that the head is not the embedding
    llama.hf.change("config.json", [](json& c) { c["tie_word_embeddings"] = true; });
    llama.save();
    const auto tied = opened(llama.hf.path());
    CHECK(has_note(tied, "lm_head"));
    for (const auto& tensor : tied.tensors()) CHECK(tensor.info.name != "output.weight");
    // Biases are taken where they are, with the order of their weights' rows.
    std::string bias(64 * 4, '\0');
    for (std::size_t i = 0; i < 64; ++i) {
        const auto value = static_cast<float>(i);
        std::memcpy(bias.data() + 4 * i, &value, 4);
    }
    llama.tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "F32", {64}, bias});
    llama.save();
    const auto file = written(opened(llama.hf.path()), llama.hf.target());
    const auto* q_bias = file.find("blk.0.attn_q.bias");
    REQUIRE(q_bias != nullptr);
    float second = 0.0f, third = 0.0f;
    const auto bytes = scratch::read(llama.hf.target());
    std::memcpy(&second, bytes.data() + q_bias->offset + 4, 4);
    std::memcpy(&third, bytes.data() + q_bias->offset + 8, 4);
    CHECK(second == 8.0f);  // heads of 16: the second half's first element comes second
    CHECK(third == 1.0f);
}

TEST_CASE("convert: an existing file is only replaced on request, and the source never") {
    const copy hf("qwen2");
    const auto made = opened(hf.path());
    scratch::write(hf.target(), "mine");
    convert::convert_write_options how;
    CHECK(made.write(hf.target(), how).error().code == errc::invalid_argument);
    CHECK(scratch::read(hf.target()) == "mine");
    how.replace = true;
    CHECK(made.write(hf.path() / "model.safetensors", how).error().code == errc::invalid_argument);
    CHECK(made.write(hf.path() / "config.json", how).error().code == errc::invalid_argument);
    fs::create_symlink(hf.path() / "model.safetensors", hf.work() / "link.gguf");
    CHECK(made.write(hf.work() / "link.gguf", how).error().code == errc::invalid_argument);
    CHECK(made.write(hf.work(), how).error().text().find("folder") != std::string::npos);
    CHECK(made.write(hf.work() / "none" / "x.gguf", how).error().code == errc::not_found);
    std::uint64_t done = 0;
    how.progress = [&](const progress& p) {
        done = p.done;
        return p.done < 40000;
    };
    CHECK(made.write(hf.target(), how).error().code == errc::canceled);
    CHECK(done >= 40000);
    CHECK(done < made.tensor_bytes());
    CHECK(scratch::read(hf.target()) == "mine");
    CHECK(scratch::count(hf.work()) == 3);  // hf, link.gguf, out.gguf
    how.progress = {};
    written(made, hf.target(), how);
}

TEST_CASE("convert: a single file of a folder, and its name") {
    const copy hf("qwen2");
    CHECK(opened(hf.path() / "model.safetensors").tensors().size() == opened(hf.path()).tensors().size());
    CHECK(opened(hf.path()).meta().get<std::string>("general.name").value() == "hf");
    convert::convert_options named;
    named.name = "Another";
    CHECK(opened(hf.path(), named).meta().get<std::string>("general.name").value() == "Another");
    CHECK(refused(hf.path() / "none").code == errc::not_found);
    fs::remove(hf.path() / "config.json");
    CHECK(refused(hf.path()).code == errc::not_found);
}

TEST_CASE("convert: recommended sampling") {
    const copy hf("qwen2");
    hf.change("generation_config.json", [](json& g) {
        g["temperature"] = 0.5;
        g["top_k"] = 20;
        g["top_p"] = 7.0;
        g["repetition_penalty"] = 1.125;
    });
    const auto made = opened(hf.path());
    CHECK(made.meta().get<float>("general.sampling.temp").value() == 0.5f);
    CHECK(made.meta().get<std::int32_t>("general.sampling.top_k").value() == 20);
    CHECK(made.meta().get<float>("general.sampling.penalty_repeat").value() == 1.125f);
    CHECK(!made.meta().contains("general.sampling.top_p"));
    CHECK(has_note(made, "top_p"));
    hf.change("generation_config.json", [](json& g) { g["temperature"] = "hot"; });
    CHECK(refused(hf.path()).code == errc::bad_type);
    hf.change("generation_config.json", [](json& g) { g["do_sample"] = false; });
    CHECK(!opened(hf.path()).meta().contains("general.sampling.top_k"));
}

TEST_CASE("convert: config.json is checked") {
    const copy hf("llama");
    const auto original = scratch::read(hf.path() / "config.json");
    const auto code = [&](const std::function<void(json&)>& edit, const std::string& part) {
        scratch::write(hf.path() / "config.json", original);
        hf.change("config.json", edit);
        const auto e = refused(hf.path());
        CHECK_MESSAGE(e.text().find(part) != std::string::npos, e.text());
        return e.code;
    };
    CHECK(code([](json& c) { c["architectures"] = {"Made\x1bUpForCausalLM"}; }, "Made\\x1bUpForCausalLM") == errc::unsupported);
    CHECK(code([](json& c) { c.erase("architectures"); }, "architectures") == errc::missing_key);
    CHECK(code([](json& c) { c.erase("hidden_size"); }, "hidden_size") == errc::missing_key);
    CHECK(code([](json& c) { c["hidden_size"] = -64; }, "hidden_size") == errc::bad_value);
    CHECK(code([](json& c) { c["hidden_size"] = 64.5; }, "hidden_size") == errc::bad_value);
    CHECK(code([](json& c) { c["num_hidden_layers"] = 4000000000u; }, "num_hidden_layers") == errc::bad_value);
    CHECK(code([](json& c) { c["num_hidden_layers"] = 3; }, "layers.2.") == errc::missing_tensor);
    CHECK(code([](json& c) { c["num_key_value_heads"] = 3; }, "num_key_value_heads") == errc::bad_value);
    CHECK(code([](json& c) { c["rms_norm_eps"] = "small"; }, "rms_norm_eps") == errc::bad_type);
    CHECK(code([](json& c) { c["hidden_act"] = "gelu"; }, "gelu") == errc::unsupported);
    CHECK(code([](json& c) { c["quantization_config"] = {{"quant_method", "gptq"}}; }, "quantis") == errc::unsupported);
    CHECK(code([](json& c) { c["rope_scaling"] = {{"rope_type", "longrope"}}; }, "longrope") == errc::unsupported);
    CHECK(code([](json& c) { c["rope_scaling"] = {{"rope_type", "linear"}}; }, "factor") == errc::missing_key);
    CHECK(code([](json& c) { c["rope_scaling"] = 4; }, "rope_scaling") == errc::bad_type);
    CHECK(code([](json& c) { c["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 0}}; }, "rope_scaling") == errc::bad_value);
    CHECK(code([](json& c) { c["rope_theta"] = -1; }, "rope_theta") == errc::bad_value);
    CHECK(code([](json& c) { c["partial_rotary_factor"] = 0.5; }, "partial_rotary_factor") == errc::unsupported);
    scratch::write(hf.path() / "config.json", "{\"a\":1,\"a\":2}");
    CHECK(refused(hf.path()).code == errc::duplicate);
    scratch::write(hf.path() / "config.json", "[]");
    CHECK(refused(hf.path()).code == errc::bad_type);
    scratch::write(hf.path() / "config.json", std::string(100000, '['));
    CHECK(refused(hf.path()).code == errc::limit);
    scratch::write(
        hf.path() / "config.json", "[0" + [] {
            std::string more;
            for (std::size_t i = 0; i < convert::max_json_values; ++i) more += ",0";
            return more + "]";
        }());
    CHECK(refused(hf.path()).code == errc::limit);
    scratch::write(hf.path() / "config.json", "{\"a\":\"\xff\"}");
    CHECK(refused(hf.path()).code == errc::bad_utf8);

    const auto changed = [&](const std::function<void(json&)>& edit) {
        scratch::write(hf.path() / "config.json", original);
        hf.change("config.json", edit);
        return opened(hf.path());
    };
    const auto yarn = changed([](json& c) {
        c["rope_scaling"] = {{"type", "yarn"},
                             {"factor", 4},
                             {"original_max_position_embeddings", 128},
                             {"beta_fast", 24},
                             {"attention_factor", 1.25}};
    });
    CHECK(yarn.meta().get<std::string>("llama.rope.scaling.type").value() == "yarn");
    CHECK(yarn.meta().get<float>("llama.rope.scaling.factor").value() == 4.0f);
    CHECK(yarn.meta().get<float>("llama.rope.scaling.yarn_beta_fast").value() == 24.0f);
    CHECK(yarn.meta().get<float>("llama.rope.scaling.attn_factor").value() == 1.25f);
    CHECK(yarn.meta().get<std::uint32_t>("llama.rope.scaling.original_context_length").value() == 128);
    CHECK(has_note(changed([](json& c) { c["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2}}; }), "dynamic"));
    CHECK(has_note(changed([](json& c) { c["sliding_window"] = 64; }), "sliding_window"));
    CHECK(changed([](json&) {}).notes().empty());
}

TEST_CASE("convert: numbers that the engine would refuse are refused") {
    for (const auto& [key, value] : {std::pair{"rms_norm_eps", -1.0}, {"rms_norm_eps", 3.0}, {"rope_theta", 1e300}, {"rope_theta", 0.0}}) {
        const copy hf("llama");
        const std::string name = key;
        const double number = value;
        hf.change("config.json", [&](json& c) { c[name] = number; });
        CAPTURE(name);
        CAPTURE(number);
        CHECK_FALSE(convert::conversion::open(hf.path()));
    }
}

TEST_CASE("convert: what an architecture's code takes for granted is checked") {
    const auto code = [](const std::string& model, const std::function<void(json&)>& edit, const std::string& part) {
        const copy hf(model);
        hf.change("config.json", edit);
        const auto e = refused(hf.path());
        CHECK_MESSAGE(e.text().find(part) != std::string::npos, e.text());
        return e.code;
    };
    CHECK(code(
              "gemma2", [](json& c) { c["layer_types"][0] = "full_attention"; }, "layer_types") == errc::unsupported);
    CHECK(code(
              "gemma2", [](json& c) { c["query_pre_attn_scalar"] = 144; }, "query_pre_attn_scalar") == errc::unsupported);
    CHECK(code(
              "gemma3", [](json& c) { c["layer_types"].erase(0); }, "layer_types") == errc::bad_value);
    CHECK(code(
              "gemma3", [](json& c) { c["rope_parameters"]["sliding_attention"]["rope_type"] = "linear"; }, "sliding") ==
          errc::unsupported);
    CHECK(code(
              "gemma3", [](json& c) { c["tie_word_embeddings"] = false; }, "tie_word_embeddings") == errc::unsupported);
    CHECK(code(
              "smollm3", [](json& c) { c["no_rope_layers"][1] = 0; }, "no_rope_layers") == errc::unsupported);
    CHECK(code(
              "mixtral", [](json& c) { c["num_local_experts"] = 7; }, "gate.weight") == errc::bad_shape);
    CHECK(code(
              "mixtral", [](json& c) { c["num_experts_per_tok"] = 7; }, "num_experts_per_tok") == errc::bad_value);
}

TEST_CASE("convert: a text model inside one that sees") {
    const copy hf("gemma3");
    auto files = convert::weight_files::open(hf.path());
    std::vector<folders::tensor> tensors{{"vision_tower.patch.weight", "BF16", {1}, "xx"}};
    for (const auto& [name, tensor] : files->tensors()) {
        std::string bytes(static_cast<std::size_t>(tensor.stored.bytes), '\0');
        REQUIRE(files->read(tensor, 0, std::as_writable_bytes(std::span(bytes))));
        tensors.push_back({"language_model." + name, "BF16", tensor.stored.shape, bytes});
    }
    const auto plain = opened(hf.path());
    scratch::write(hf.path() / "model.safetensors", folders::safetensors_file(tensors));
    hf.change("config.json", [](json& c) {
        json inner = c;
        inner.erase("architectures");
        c = {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", inner}, {"bos_token_id", 2}};
    });
    const auto made = opened(hf.path());
    CHECK(has_note(made, "images"));
    CHECK(made.meta() == plain.meta());
    CHECK(made.tensors().size() == plain.tensors().size());
}
