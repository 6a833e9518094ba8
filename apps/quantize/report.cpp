#include "quantize/report.hpp"

#include <nlohmann/json.hpp>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "quantize/screen.hpp"

namespace colibri::quantize_program {
namespace {

double bits(std::uint64_t bytes, std::uint64_t elements) {
    return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

}  // namespace

std::string tensor_line(const quantize::plan& plan, std::size_t tensor) {
    const auto& t = plan.tensors[tensor];
    const std::string count = concat(plan.tensors.size());
    std::string number = concat(tensor + 1);
    if (number.size() < count.size()) number.insert(0, count.size() - number.size(), ' ');
    std::string name = escaped(t.target.name);
    if (name.size() < 32) name.resize(32, ' ');
    std::string out = concat("[", number, "/", count, "] ", name, " ", gguf::shape_text(t.target), "  ", colibri::name(t.source.type));
    if (t.source.type == t.target.type) return concat(out, "  ", bytes_text(static_cast<double>(t.target.bytes)));
    out += concat(" -> ", colibri::name(t.target.type), "  ", bytes_text(static_cast<double>(t.source.bytes)), " -> ",
                  bytes_text(static_cast<double>(t.target.bytes)));
    if (t.is_fallback) out += "  (its rows don't fit the usual type's blocks)";
    return out;
}

std::string sums_line(const quantize::job& job) {
    const auto& plan = job.planned();
    const auto elements = plan.elements();
    std::size_t fallbacks = 0;
    for (const auto& tensor : plan.tensors) fallbacks += tensor.is_fallback ? 1 : 0;
    std::string out = concat(plan.tensors.size(), " tensors, ", bytes_text(static_cast<double>(plan.source_bytes())), " (",
                             fixed(bits(plan.source_bytes(), elements), 2), " bits a weight) -> ", bytes_text(static_cast<double>(plan.target_bytes())),
                             " (", fixed(bits(plan.target_bytes(), elements), 2), ")");
    if (job.files().size() > 1) out += concat(" in ", job.files().size(), " files");
    if (fallbacks != 0) out += concat("; ", fallbacks, " with rows that don't fit the usual type's blocks");
    return out;
}

std::string json_report(const quantize::job& job, const options& given, std::optional<double> seconds) {
    using json = nlohmann::ordered_json;
    const auto& plan = job.planned();
    json out;
    out["input"] = job.input().string();
    out["type"] = given.kind ? json(colibri::quantize::name(*given.kind)) : json();
    out["dry_run"] = given.dry_run;
    out["files"] = json::array();
    for (const auto& file : job.files()) {
        json one;
        one["path"] = file.path.empty() ? json() : json(file.path.string());
        one["bytes"] = file.bytes;
        out["files"].push_back(std::move(one));
    }
    out["file_bytes"] = job.file_bytes();
    out["source_bytes"] = plan.source_bytes();
    out["bytes"] = plan.target_bytes();
    out["elements"] = plan.elements();
    out["bits_per_weight"] = bits(plan.target_bytes(), plan.elements());
    out["tensors"] = json::array();
    for (const auto& tensor : plan.tensors) {
        json one;
        one["name"] = tensor.target.name;
        one["shape"] = json::array();
        for (unsigned i = 0; i < tensor.target.n_dims; ++i) one["shape"].push_back(tensor.target.dims[i]);
        one["source"] = colibri::name(tensor.source.type);
        one["type"] = colibri::name(tensor.target.type);
        one["bytes"] = tensor.target.bytes;
        one["fallback"] = tensor.is_fallback;
        one["importance"] = !tensor.importance.empty();
        out["tensors"].push_back(std::move(one));
    }
    out["notes"] = plan.notes;
    out["seconds"] = seconds ? json(*seconds) : json();
    return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace colibri::quantize_program
