// A model written again in other files: split, merged, or with other metadata. The tensors' bytes stay the same.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/gguf/shard_writer.hpp"
#include "colibri/gguf/tensor_reader.hpp"

namespace colibri::gguf {

/// Metadata and tensors of `model` as they would be written: without the keys of a split one, cut by `limits` (none: one file).
/// Errors: those of plan_split.
struct rewrite_plan {
    metadata meta;
    std::vector<tensor_info> tensors;
    std::vector<std::filesystem::path> paths;  ///< of the files that will appear
};
[[nodiscard]] inline result<rewrite_plan> plan_rewrite(const file& model, const std::filesystem::path& output,
                                                       const split_limits& limits = {}) {
    rewrite_plan out{model.meta(), {model.tensors().begin(), model.tensors().end()}, {}};
    remove_split_keys(out.meta);
    if (auto ok = plan_split(out.meta, out.tensors, limits); !ok) return std::move(ok).error();
    out.paths = shard_paths(output, out.tensors.empty() ? 1 : out.tensors.back().part + 1);
    return out;
}

/// Writes a plan of plan_rewrite; memory stays within some MiB. Nothing appears unless everything is written. `watch` gets bytes
/// of tensors. Errors: those of reading and writing; canceled.
[[nodiscard]] inline result<void> rewrite(const file& model, const rewrite_plan& plan, const std::filesystem::path& output,
                                          const progress_fn& watch = {}) {
    auto in = tensor_reader::open(model);
    if (!in) return std::move(in).error();
    auto out = shard_writer::create(output, plan.meta, plan.tensors);
    if (!out) return std::move(out).error();
    auto copied = sweep_tensors(*in, model.tensors(), watch, [&](std::span<const tensor_piece> pieces) -> result<void> {
        for (const auto& piece : pieces) {
            if (auto ok = out->write(piece.bytes); !ok) return ok;
        }
        return {};
    });
    if (!copied) return copied;
    return out->finish();
}

}  // namespace colibri::gguf
