// Importance matrices in files: GGUF, and the older binary form (.dat).
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/eval/importance.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/gguf/foreign.hpp"
#include "colibri/gguf/writer.hpp"
#include "colibri/io/byte_reader.hpp"
#include "colibri/io/file_reader.hpp"

namespace colibri::eval {

/// Reads an importance matrix of either form.
/// GGUF: per weight tensor NAME the F32 tensors NAME.in_sum2 [columns, matrices] and NAME.counts [1, matrices]; the keys general.type
/// ("imatrix"), imatrix.datasets, imatrix.chunk_count and imatrix.chunk_size, of which none must be there, and our own
/// colibri.imatrix.run_hash.
/// .dat, all little-endian, i32 and f32: number of entries; of each the length of its name, the name, windows, number of values, the
/// values, which are means times windows; then, perhaps, windows and the length and name of the text. Its windows are
/// taken to have `dat_window` tokens, which matters for merging alone.
/// Errors: not_found, not_a_file (a model, a text), truncated, bad_count, bad_type, bad_shape, bad_value (NaN, infinity, below 0),
/// duplicate, missing_tensor (sums without counts), and what gguf::file::open has; each with the file's and, inside, the tensor's name.
[[nodiscard]] inline result<importance_matrix> read_imatrix(const std::filesystem::path& path, std::uint32_t dat_window = 512);

/// The same from bytes; `name` stands for the file.
[[nodiscard]] inline result<importance_matrix> read_imatrix(byte_source& source, std::string_view name, std::uint32_t dat_window = 512);

/// Writes the GGUF form; the file appears whole or not at all. Errors: those of gguf::writer (a tensor's name that is too long, disk full).
[[nodiscard]] inline result<void> write_imatrix(const importance_matrix& matrix, const std::filesystem::path& path);

namespace detail {

inline constexpr std::string_view sums_suffix = ".in_sum2";
inline constexpr std::string_view counts_suffix = ".counts";

/// Refuses numbers that no sum of squares has. `what` names them in the message.
template <class T>
[[nodiscard]] result<void> check_numbers(std::span<const T> numbers, std::string_view what, std::string_view tensor) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (!(numbers[i] >= T{0}) || std::isinf(numbers[i])) {
            return error{errc::bad_value, concat("of the tensor ", quoted(tensor), " ", what, " ", i, " is ", numbers[i],
                                                 "; the importance matrix is damaged")};
        }
    }
    return {};
}

/// All values of an F32 tensor. Errors: bad_type, truncated, io.
[[nodiscard]] inline result<std::vector<float>> read_floats(byte_source& source, const gguf::tensor_info& tensor) {
    if (tensor.type != dtype::f32) {
        return error{errc::bad_type, concat("the tensor ", quoted(tensor.name), " is ", colibri::name(tensor.type), ", not F32")};
    }
    std::vector<float> out(static_cast<std::size_t>(tensor.elements()));  // all there: the file was checked when it was opened
    if (auto ok = source.read_at(tensor.offset, std::as_writable_bytes(std::span(out))); !ok) return std::move(ok).error();
    return out;
}

/// Sums of a stack need one count per matrix or one for all.
[[nodiscard]] inline result<void> check_entry(const importance& entry, std::string_view tensor) {
    if (entry.sums.size() % entry.counts.size() != 0) {
        return error{errc::bad_shape, concat("the tensor ", quoted(tensor), " has ", entry.sums.size(), " sums and ",
                                             entry.counts.size(), " counts; the importance matrix is damaged")};
    }
    if (auto ok = check_numbers<float>(entry.sums, "sum", tensor); !ok) return ok;
    return check_numbers<double>(entry.counts, "count", tensor);
}

[[nodiscard]] inline result<importance_matrix> read_gguf_imatrix(byte_source& source, std::string_view name) {
    auto file = gguf::file::read(source, name);
    if (!file) return std::move(file).error();
    const auto within = [&](error e) { return std::move(e).within(name); };
    const auto kind = file->meta().get_or<std::string>("general.type", "imatrix");
    if (!kind) return within(kind.error());
    if (*kind != "imatrix") {
        return within({errc::not_a_file, concat("this is no importance matrix: its general.type is ", quoted(*kind))});
    }
    importance_matrix out;
    if (const auto* texts = file->meta().find("imatrix.datasets"); texts != nullptr) {
        auto all = file->meta().get_array<std::string>("imatrix.datasets");
        if (!all) return within(std::move(all).error());
        out.datasets = *std::move(all);
    }
    auto chunks = file->meta().get_or<std::uint32_t>("imatrix.chunk_count", 0);
    auto size = chunks ? file->meta().get_or<std::uint32_t>("imatrix.chunk_size", 0) : chunks;
    if (!size) return within(std::move(size).error());
    out.chunks = *chunks;
    out.chunk_size = *size;
    auto hash = file->meta().get_or<std::uint64_t>("colibri.imatrix.run_hash", 0);
    if (!hash) return within(std::move(hash).error());
    out.run_hash = *hash;
    for (const auto& tensor : file->tensors()) {
        const std::string_view full = tensor.name;
        const bool sums = full.ends_with(sums_suffix);
        if (!sums && !full.ends_with(counts_suffix)) continue;
        const auto of = full.substr(0, full.size() - (sums ? sums_suffix : counts_suffix).size());
        const auto* other = file->find(concat(of, sums ? counts_suffix : sums_suffix));
        if (other == nullptr) {
            return within({errc::missing_tensor, concat("the tensor ", quoted(full), " is alone: ", quoted(concat(of, sums ? counts_suffix : sums_suffix)),
                                                        " is missing; the importance matrix is incomplete")});
        }
        if (!sums) continue;
        importance entry;
        auto values = read_floats(source, tensor);
        auto counts = values ? read_floats(source, *other) : std::move(values);
        if (!counts) return within(std::move(counts).error());
        entry.sums = *std::move(values);
        entry.counts.assign(counts->begin(), counts->end());
        if (auto ok = check_entry(entry, of); !ok) return within(std::move(ok).error());
        out.entries.emplace(of, std::move(entry));
    }
    if (out.entries.empty()) {
        return within({errc::not_a_file, "this GGUF file is no importance matrix: it has no tensor whose name ends in .in_sum2"});
    }
    return out;
}

/// Reads the older form; every count is checked against the bytes that are left before memory is taken for it.
class dat_parser {
public:
    dat_parser(byte_source& source, std::uint32_t window) : in_(source), window_(window) {}

    [[nodiscard]] result<importance_matrix> run() {
        auto entries = in_.read<std::int32_t>("the number of entries");
        if (!entries) return std::move(entries).error();
        constexpr std::uint64_t least = 4 + 1 + 4 + 4 + 4;  // an entry with a name of one byte and one value
        if (*entries < 1 || static_cast<std::uint64_t>(*entries) > in_.remaining() / least) {
            return error{errc::bad_count, concat("the number of entries is ", *entries, ", which ", in_.size(), " bytes can't hold"), 0};
        }
        for (std::int32_t i = 0; i < *entries; ++i) {
            if (auto ok = entry(); !ok) return std::move(ok).error();
        }
        if (in_.remaining() == 0) return std::move(out_);
        auto windows = count("the number of windows", 0);
        if (!windows) return std::move(windows).error();
        out_.chunks = *windows;
        out_.chunk_size = window_;
        if (in_.remaining() == 0) return std::move(out_);
        auto length = count("the length of the text's name", 0);
        if (!length) return std::move(length).error();
        std::string text;
        if (auto ok = in_.append(text, *length, "the text's name"); !ok) return std::move(ok).error();
        if (!text.empty()) out_.datasets.push_back(std::move(text));
        if (in_.remaining() != 0) return error{errc::bad_count, concat(in_.remaining(), " bytes follow the end"), in_.offset()};
        return std::move(out_);
    }

private:
    [[nodiscard]] result<std::uint32_t> count(std::string_view what, std::int32_t least) {
        const auto at = in_.offset();
        auto n = in_.read<std::int32_t>(what);
        if (!n) return std::move(n).error();
        if (*n < least) return error{errc::bad_count, concat(what, " is ", *n), at};
        return static_cast<std::uint32_t>(*n);
    }

    [[nodiscard]] result<void> entry() {
        auto length = count("the length of a name", 1);
        if (!length) return std::move(length).error();
        const auto at = in_.offset();
        // Other kinds of files have large numbers here; names of tensors are short.
        if (*length > 1024) return error{errc::bad_count, concat("a name of ", *length, " bytes; no tensor has that"), at};
        std::string tensor;
        if (auto ok = in_.append(tensor, *length, "a name"); !ok) return ok;
        if (auto ok = gguf::detail::check_name("tensor name", tensor, at); !ok) return ok;
        auto windows = count(concat("the number of windows of ", quoted(tensor)), 0);
        auto values = windows ? count(concat("the number of values of ", quoted(tensor)), 1) : std::move(windows);
        if (!values) return std::move(values).error();
        std::string bytes;
        if (auto ok = in_.append(bytes, std::uint64_t{*values} * sizeof(float), concat("the values of ", quoted(tensor))); !ok) return ok;
        importance entry;
        entry.sums.resize(*values);
        std::memcpy(entry.sums.data(), bytes.data(), bytes.size());
        for (float& sum : entry.sums) sum *= static_cast<float>(window_);
        entry.counts = {static_cast<double>(*windows) * window_};
        if (auto ok = check_entry(entry, tensor); !ok) return ok;
        if (!out_.entries.emplace(tensor, std::move(entry)).second) {
            return error{errc::duplicate, concat("the tensor ", quoted(tensor), " is there twice"), at};
        }
        return {};
    }

    source_reader in_;
    std::uint32_t window_;
    importance_matrix out_;
};

[[nodiscard]] inline gguf::tensor_info floats_tensor(std::string name, std::size_t columns, std::size_t rows) {
    gguf::tensor_info out;
    out.name = std::move(name);
    out.type = dtype::f32;
    out.n_dims = 2;
    out.dims = {columns, rows, 1, 1};
    return out;
}

}  // namespace detail

inline result<importance_matrix> read_imatrix(byte_source& source, std::string_view name, std::uint32_t dat_window) {
    char magic[4] = {};
    if (source.size() >= sizeof magic) {
        if (auto ok = source.read_at(0, std::as_writable_bytes(std::span(magic))); !ok) return std::move(ok).error().within(name);
        if (std::string_view(magic, sizeof magic) == "GGUF") return detail::read_gguf_imatrix(source, name);
    }
    auto old = detail::dat_parser(source, dat_window).run();
    if (old) return old;
    std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), gguf::foreign_head_size)));
    if (auto ok = source.read_at(0, head); !ok) return std::move(ok).error().within(name);
    if (const auto kind = gguf::describe_foreign(head); !kind.empty()) {
        return error{errc::bad_magic, concat("this is no importance matrix but ", kind), error::no_offset, std::string(name)};
    }
    auto e = std::move(old).error();
    e.message = concat("this is no GGUF file, and as an importance matrix of the older form it is damaged: ", e.message);
    return std::move(e).within(name);
}

inline result<importance_matrix> read_imatrix(const std::filesystem::path& path, std::uint32_t dat_window) {
    auto reader = file_reader::open(path);
    if (!reader) return std::move(reader).error();
    return read_imatrix(**reader, quoted(path.string()), dat_window);
}

inline result<void> write_imatrix(const importance_matrix& matrix, const std::filesystem::path& path) {
    gguf::metadata meta;
    meta.set("general.type", "imatrix");
    meta.set("imatrix.datasets", gguf::value::strings(matrix.datasets));
    meta.set("imatrix.chunk_count", matrix.chunks);
    meta.set("imatrix.chunk_size", matrix.chunk_size);
    if (matrix.run_hash != 0) meta.set("colibri.imatrix.run_hash", matrix.run_hash);
    std::vector<gguf::tensor_info> tensors;
    for (const auto& [tensor, entry] : matrix.entries) {
        tensors.push_back(detail::floats_tensor(concat(tensor, detail::sums_suffix), entry.columns(), entry.matrices()));
        tensors.push_back(detail::floats_tensor(concat(tensor, detail::counts_suffix), 1, entry.matrices()));
    }
    auto out = gguf::writer::create(path, meta, std::move(tensors));
    if (!out) return std::move(out).error();
    for (const auto& [tensor, entry] : matrix.entries) {
        if (auto ok = out->write(std::as_bytes(std::span(entry.sums))); !ok) return ok;
        std::vector<float> counts;
        for (const double count : entry.counts) counts.push_back(static_cast<float>(count));
        if (auto ok = out->write(std::as_bytes(std::span(counts))); !ok) return ok;
    }
    return out->finish();
}

}  // namespace colibri::eval
