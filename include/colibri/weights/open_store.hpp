// The store for a way of holding weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colibri/weights/file_store.hpp"
#include "colibri/weights/resident_store.hpp"
#include "colibri/weights/streamed_store.hpp"

namespace colibri::weights {

/// How to open a store.
struct store_options {
    holding how = holding::mapped;  ///< not automatic: see plan_memory
    bool lock = false;              ///< keep its memory in place (mlock)
    stream_options streaming = {};  ///< holding::streamed: memory, sizes of reads
    load_options loading = {};
    panel_choice panels = panel_choice::all;  ///< holding::resident: which matrices become panels
};

/// Opens the store for `groups`. Errors: those of the stores' `open`.
[[nodiscard]] inline result<std::unique_ptr<store>> open_store(const gguf::file& file, const std::vector<group>& groups,
                                                               const store_options& options, std::vector<std::string>& notes) {
    switch (options.how) {
        case holding::resident: return resident_store::open(file, groups, options.lock, notes, options.loading, options.panels);
        case holding::streamed: {
            auto streaming = options.streaming;
            streaming.lock = options.lock;
            streaming.loading = options.loading;
            return streamed_store::open(file, groups, streaming, notes);
        }
        default: return file_store::open(file, groups, options.lock, notes);
    }
}

}  // namespace colibri::weights
