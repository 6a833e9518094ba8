// One quantisation from request to file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/gguf/shard_writer.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/quantize/heat_order.hpp"
#include "colibri/quantize/importance.hpp"
#include "colibri/quantize/output_files.hpp"
#include "colibri/quantize/pipeline.hpp"
#include "colibri/quantize/plan.hpp"
#include "colibri/quantize/target_size.hpp"

namespace colibri::quantize {

/// What a person asks for.
struct request {
    std::filesystem::path input;
    std::filesystem::path output;  ///< may be empty when nothing will be written
    type_choice types = {};
    std::optional<double> target_bits = {};          ///< most bits for a weight, over all tensors
    std::optional<std::uint64_t> target_bytes = {};  ///< most bytes of all files together
    std::vector<metadata_override> overrides = {};
    std::vector<std::uint32_t> pruned = {};  ///< layers to leave out
    std::optional<importance_weights> importance = {};
    std::vector<std::filesystem::path> other_inputs = {};  ///< files that were read before and must not be written over
    importance_filter filter = {};
    std::optional<heat_counts> heat = {};
    split_choice split = {};
    bool allow_requantise = false;
    bool force = false;
    bool plan_only = false;  ///< nothing will be written: that importance weights are missing is a note, not an error
};

/// A request that everything has been checked of, ready to be written. Move-only.
class job {
public:
    /// Reads the model's header, decides on all types, and checks everything that can be checked before output is made; nothing is
    /// written. With a target size, weights are sampled meanwhile, which `watch` sees the progress of (in tensors).
    /// Errors: those of gguf::file, plan_copy, choose_types, check_types, check_importance, order_by_heat, fit_to_size.
    [[nodiscard]] static result<job> prepare(request asked, thread_pool& pool, const progress_fn& watch = {});

    [[nodiscard]] const std::filesystem::path& input() const noexcept { return asked_.input; }
    [[nodiscard]] const plan& planned() const noexcept { return plan_; }
    [[nodiscard]] std::span<const output_file> files() const noexcept { return files_; }
    /// Bytes of all files.
    [[nodiscard]] std::uint64_t file_bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& file : files_) sum += file.bytes;
        return sum;
    }

    /// Whether the output may be written: it isn't an input, doesn't exist (or may be replaced), and has room. `write` asks too.
    /// Errors: those of check_outputs.
    [[nodiscard]] result<void> check_output() const {
        if (asked_.output.empty()) return error{errc::invalid_argument, "no output was named"};
        return check_outputs(files_, inputs_, asked_.force);
    }

    /// Writes the files: they appear under their names, complete and on the disk, when all is done. A set that was broken off can't be
    /// opened, and one of before is whole or can't be opened either (gguf::shard_writer). Errors: those of check_outputs,
    /// gguf::shard_writer and pipeline::run.
    [[nodiscard]] result<void> write(thread_pool& pool, const pipeline_observer& observer = {}) const {
        if (auto ok = check_output(); !ok) return ok;
        std::vector<gguf::tensor_info> targets;
        for (const auto& tensor : plan_.tensors) targets.push_back(tensor.target);
        auto out = gguf::shard_writer::create(asked_.output, plan_.meta, std::move(targets));
        if (!out) return std::move(out).error();
        pipeline work(plan_, sources_, *out, observer);
        if (auto done = work.run(pool); !done) return done;
        return out->finish();
    }

private:
    explicit job(request asked) : asked_(std::move(asked)) {}

    [[nodiscard]] result<void> open();
    [[nodiscard]] result<void> choose(thread_pool& pool, const progress_fn& watch);
    [[nodiscard]] result<std::uint64_t> tensor_budget();
    [[nodiscard]] mixture nearest_kind() const;

    request asked_;
    std::vector<std::filesystem::path> inputs_;
    std::vector<std::unique_ptr<file_reader>> sources_;
    plan plan_;
    std::vector<output_file> files_;
    std::optional<gguf::file> input_;  // until the plan stands
};

inline result<job> job::prepare(request asked, thread_pool& pool, const progress_fn& watch) {
    job out(std::move(asked));
    if (auto ok = out.open(); !ok) return std::move(ok).error();
    if (auto ok = out.choose(pool, watch); !ok) return std::move(ok).error();
    auto files = output_files(out.plan_, out.asked_.output, out.asked_.split);
    if (!files) return std::move(files).error();
    out.files_ = std::move(*files);
    out.input_.reset();
    return out;
}

inline result<void> job::open() {
    auto input = gguf::file::open(asked_.input);
    if (!input) return std::move(input).error();
    for (const auto& part : input->parts()) {
        auto source = file_reader::open(part.path);
        if (!source) return std::move(source).error();
        if ((*source)->size() != part.size) return error{errc::io, concat(quoted(part.path.string()), " was changed while it was read; try again")};
        sources_.push_back(std::move(*source));
        inputs_.push_back(part.path);
    }
    for (const auto& path : asked_.other_inputs) inputs_.push_back(path);
    auto copied = plan_copy(*input, asked_.overrides, asked_.pruned);
    if (!copied) return std::move(copied).error();
    plan_ = std::move(*copied);
    if (asked_.importance) {
        const std::string name = quoted(asked_.importance->file);
        if (auto ok = check_importance(*asked_.importance, input->tensors(), model_facts::of(input->meta(), input->tensors())); !ok) {
            return std::move(ok).error().within(name);
        }
    }
    input_ = std::move(*input);
    return {};
}

inline result<void> job::choose(thread_pool& pool, const progress_fn& watch) {
    const bool fits_size = asked_.target_bits || asked_.target_bytes;
    if (fits_size) {
        asked_.types.kind = mixture::q8_0;  // until types are chosen
        asked_.types.pure = true;
    }
    if (auto ok = choose_types(plan_, asked_.types, asked_.importance.has_value()); !ok) return ok;
    if (asked_.importance) {
        std::size_t entries = 0;
        for (const auto& [name, weights] : asked_.importance->entries) entries += asked_.filter.takes(name) ? 1 : 0;
        mark_importance(*asked_.importance, entries, plan_.meta);
        attach_importance(std::move(*asked_.importance), asked_.filter, plan_, fits_size);
        asked_.importance->entries.clear();
    }
    mark_as(asked_.types.kind, plan_.meta);
    if (fits_size) {
        auto budget = tensor_budget();
        if (!budget) return std::move(budget).error();
        if (auto ok = fit_to_size(plan_, *budget, sources_, pool, watch); !ok) return ok;
        mark_as(nearest_kind(), plan_.meta);
    }
    // Experts change places in everything that was decided for them, importance included.
    if (asked_.heat) {
        if (auto ok = order_by_heat(plan_, *asked_.heat, asked_.pruned); !ok) return ok;
    }
    if (auto ok = check_importance_is_there(plan_); !ok) {
        if (!asked_.plan_only) return ok;
        plan_.notes.push_back(ok.error().message);
    }
    return check_types(plan_, asked_.allow_requantise);
}

/// What a target leaves for the tensors' bytes.
inline result<std::uint64_t> job::tensor_budget() {
    std::uint64_t out = ~std::uint64_t{0};
    if (asked_.target_bits) out = static_cast<std::uint64_t>(*asked_.target_bits * static_cast<double>(plan_.elements()) / 8.0);
    if (!asked_.target_bytes) return out;
    auto files = output_files(plan_, asked_.output, asked_.split);
    if (!files) return std::move(files).error();
    auto alignment = gguf::detail::read_alignment(plan_.meta);
    if (!alignment) return std::move(alignment).error();
    // What isn't tensors now won't be more than the header and a padding for each tensor.
    std::uint64_t rest = 0;
    for (const auto& file : *files) rest += file.bytes;
    for (const auto& tensor : plan_.tensors) rest -= round_up<std::uint64_t>(tensor.target.bytes, *alignment);
    for (const auto& tensor : plan_.tensors) rest += tensor.can_change || tensor.target.bytes % *alignment != 0 ? *alignment - 1 : 0;
    if (*asked_.target_bytes < rest) {
        return error{errc::invalid_argument, concat("the wanted size of ", *asked_.target_bytes, " bytes is less than the file's header")};
    }
    return std::min(out, *asked_.target_bytes - rest);
}

/// The mixture that is built on the type with the most bytes.
inline mixture job::nearest_kind() const {
    std::map<dtype, std::uint64_t> bytes;
    for (const auto& tensor : plan_.tensors) bytes[tensor.target.type] += tensor.target.bytes;
    const auto most = std::ranges::max_element(bytes, {}, [](const auto& pair) { return pair.second; });
    for (const auto& row : mixture_table) {
        if (most != bytes.end() && row.id != mixture::copy && row.base == most->first) return row.id;
    }
    return mixture::q8_0;
}

}  // namespace colibri::quantize
