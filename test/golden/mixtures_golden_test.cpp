// The types and the size that each named mixture gives the tensors of ten published models.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "colibri/gguf/file.hpp"
#include "colibri/gguf/writer.hpp"
#include "colibri/quantize/plan.hpp"
#include "support/golden.hpp"
#include "support/header_only.hpp"
#include "support/scratch.hpp"

using namespace colibri;

TEST_CASE("mixtures of published models") {
    const auto root = golden::folder("mixtures");
    if (!root) return;
    golden::tally tally("mixtures");
    const scratch::folder folder;
    for (const auto& entry : std::filesystem::directory_iterator(*root)) {
        if (entry.path().extension() != ".json") continue;
        const auto model = nlohmann::json::parse(std::ifstream(entry.path()));
        const auto path = folder.path() / "model.gguf";
        header_only::write(path, model);
        auto file = gguf::file::open(path);
        REQUIRE_MESSAGE(file, (file ? std::string() : file.error().text()));
        for (const auto& item : model["mixtures"].items()) {
            const std::string name = item.key();
            const auto& expected = item.value();
            CAPTURE(entry.path().filename().string());
            CAPTURE(name);
            const auto kind = quantize::find_mixture(name);
            REQUIRE(kind);
            quantize::type_choice choice{*kind};
            auto plan = quantize::plan_copy(*file, {}, {});
            REQUIRE(plan);
            REQUIRE(quantize::choose_types(*plan, choice, false));
            const std::string usual = expected["default"];
            for (const auto& tensor : plan->tensors) {
                const auto other = expected["other"].find(tensor.source.name);
                const std::string type = other == expected["other"].end() ? usual : other->get<std::string>();
                CHECK_MESSAGE(colibri::name(tensor.target.type) == type, tensor.source.name);
            }
            CHECK(plan->target_bytes() == expected["bytes"].get<std::uint64_t>());
            CHECK(plan->notes.empty());
            tally.ran("mixtures");
        }
        tally.ran("models");
    }
}
