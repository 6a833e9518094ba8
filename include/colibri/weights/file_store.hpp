// Weights in the file's own layout, mapped into the page cache.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "colibri/core/buffer.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/io/file_identity.hpp"
#include "colibri/io/mapped_file.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/quant/rows.hpp"
#include "colibri/weights/store.hpp"

namespace colibri::weights {

/// Hands out views into a model's mapped files. A lease costs nothing. Tensors that don't lie at their elements' alignment (files
/// may use any) are copied once.
class file_store final : public store {
public:
    /// `groups`: what the model will ask for, in the order of one sweep; the tensors' types are supported ones. `lock`: keep all
    /// pages in memory (mlock); what the system doesn't allow becomes a sentence in `notes`.
    /// Errors: io, not_found, truncated (a file has become shorter), out_of_memory (with `lock`: more than is free).
    [[nodiscard]] static result<std::unique_ptr<store>> open(const gguf::file& file, const std::vector<group>& groups,
                                                             bool lock, std::vector<std::string>& notes) {
        std::unique_ptr<file_store> out(new file_store);
        if (lock) {
            if (auto ok = check_memory(file.tensor_bytes()); !ok) return std::move(ok).error();
        }
        if (auto ok = out->map(file); !ok) return std::move(ok).error();
        for (const auto& group : groups) {
            std::vector<tensor_ref> refs;
            for (const auto id : group.tensors) {
                auto ref = out->place(file.tensors()[id], id);
                if (!ref) return std::move(ref).error().within(concat("tensor ", quoted(file.tensors()[id].name)));
                refs.push_back(*ref);
            }
            out->groups_.push_back(std::move(refs));
        }
        if (lock) out->lock(notes);
        return std::unique_ptr<store>(std::move(out));
    }

    [[nodiscard]] result<lease> acquire(group_id group, std::span<const std::uint32_t> parts) override {
        return lease(this, group, groups_[group], parts);
    }

    [[nodiscard]] holding how() const noexcept override { return holding::mapped; }
    [[nodiscard]] memory_use memory() const noexcept override { return bytes_; }

protected:
    void release(group_id) noexcept override {}

    /// What is cut off kills a process that reads it: better noticed before.
    [[nodiscard]] result<void> begin_sweep(bool, const cancel_flag*) override {
        for (const auto& file : watched_) {
            auto now = identity_of(file.handle.get(), file.path);
            if (!now) return std::move(now).error();
            if (auto ok = same_file(file.path, file.identity, *now); !ok) return ok;
        }
        return {};
    }

private:
    using id_type = tensor_id;

    file_store() = default;

    [[nodiscard]] static result<void> check_memory(std::uint64_t needed) {
        const std::uint64_t free = read_memory_limits().free();
        if (needed <= free) return {};
        return error{errc::out_of_memory,
                     concat("the weights take ", needed >> 20, " MiB and only ", free >> 20,
                            " MiB of memory are free; without --mlock the file is mapped and needs no memory of its own")};
    }

    struct watched_file {
        std::filesystem::path path;
        unique_fd handle;
        file_identity identity;
    };

    [[nodiscard]] result<void> map(const gguf::file& file) {
        for (const auto& part : file.parts()) {
            auto opened = open_for_reading(part.path);
            if (!opened) return std::move(opened).error();
            auto identity = identity_of(opened->handle.get(), part.path);
            if (!identity) return std::move(identity).error();
            watched_.push_back({part.path, std::move(opened->handle), *identity});
            auto mapped = mapped_file::open(part.path);
            if (!mapped) return std::move(mapped).error();
            if (auto ok = check_size(part, mapped->size()); !ok) return ok;
            bytes_.mapped += mapped->size();
            files_.push_back(*std::move(mapped));
        }
        return {};
    }

    [[nodiscard]] static result<void> check_size(const gguf::part& part, std::uint64_t size) {
        if (size >= part.size) return {};
        return error{errc::truncated, concat("the file has shrunk from ", part.size, " to ", size, " bytes while it was being opened"),
                     size, escaped(part.path.string())};
    }

    [[nodiscard]] result<tensor_ref> place(const gguf::tensor_info& info, id_type id) {
        const auto size = static_cast<std::size_t>(info.bytes);
        const std::byte* data = files_[info.part].bytes().data() + info.offset;
        if (const auto copy = copies_.find(id); copy != copies_.end()) {
            data = copy->second.data();
        } else if (reinterpret_cast<std::uintptr_t>(data) % quant::block_alignment(info.type) != 0) {
            auto buffer = aligned_buffer::allocate(size);
            if (!buffer) return std::move(buffer).error();
            std::memcpy(buffer->data(), data, size);
            bytes_.resident += info.bytes;
            data = copies_.emplace(id, *std::move(buffer)).first->second.data();
        }
        auto dims = shape::make(info.dims);
        if (!dims) return std::move(dims).error();
        return tensor_ref::make(info.type, *dims, {data, size});
    }

    void lock(std::vector<std::string>& notes) {
        int problem = 0;
        for (const auto& file : files_) {
            if (::mlock(file.bytes().data(), file.size()) != 0) problem = errno;
        }
        for (const auto& [id, copy] : copies_) {
            if (::mlock(copy.data(), copy.size()) != 0) problem = errno;
        }
        if (problem != 0) {
            notes.push_back(concat("the system doesn't allow the weights to be locked in memory (", std::strerror(problem),
                                   "); raise the limit with ulimit -l; going on without"));
        }
    }

    std::vector<mapped_file> files_;
    std::vector<watched_file> watched_;
    std::map<id_type, aligned_buffer> copies_;
    std::vector<std::vector<tensor_ref>> groups_;
    memory_use bytes_;
};

}  // namespace colibri::weights
