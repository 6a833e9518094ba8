// The contents of a GGUF file as rows for a listing, and the whole listing as text or JSON.
#pragma once

#include <algorithm>
#include <cstdint>
#include <range/v3/view/transform.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/glob.hpp"
#include "colibri/gguf/kind.hpp"
#include "colibri/gguf/value_text.hpp"

namespace colibri::gguf {

/// One metadata key; all texts are safe for a terminal.
struct key_row {
    std::string key;
    std::string type;  ///< "u32", "string[49152]"
    std::string text;  ///< the value, long ones abbreviated
};

/// One tensor; texts are safe for a terminal.
struct tensor_row {
    std::string name;
    std::string_view type;  ///< "Q4_K"
    std::string shape;      ///< "[576, 49152]", row length first
    std::uint64_t elements = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  ///< in its part's file
    unsigned part = 0;
};

/// All tensors of one type together.
struct type_total {
    dtype type = dtype::f32;
    std::uint64_t tensors = 0;
    std::uint64_t elements = 0;
    std::uint64_t bytes = 0;
};

/// The figures at the head of a listing.
struct file_summary {
    std::string kind;               ///< kind_text
    std::uint64_t file_bytes = 0;   ///< of all parts
    std::uint64_t data_bytes = 0;   ///< of all tensors
    std::uint64_t parameters = 0;   ///< elements of all tensors
    double bits_per_weight = 0;     ///< data bits / parameters; 0 without tensors
    std::vector<type_total> types;  ///< most bytes first
};

/// A view of the metadata as key_rows, made as they are read. Precondition: `gguf` outlives it.
[[nodiscard]] inline auto key_rows(const file& gguf, value_style style = {}) {
    return gguf.meta().entries() | ranges::views::transform([style](const metadata::entry& entry) {
               return key_row{escaped(entry.key), type_text(entry.value), value_text(entry.value, style)};
           });
}

/// A view of the tensor list as tensor_rows, in file order. Precondition: `gguf` outlives it.
[[nodiscard]] inline auto tensor_rows(const file& gguf) {
    return gguf.tensors() | ranges::views::transform([](const tensor_info& tensor) {
               return tensor_row{escaped(tensor.name), name(tensor.type), shape_text(tensor), tensor.elements(),
                                 tensor.bytes,         tensor.offset,     tensor.part};
           });
}

[[nodiscard]] inline file_summary summarize(const file& gguf) {
    file_summary out;
    out.kind = kind_text(gguf);
    for (const auto& part : gguf.parts()) out.file_bytes += part.size;
    for (const auto& tensor : gguf.tensors()) {
        auto total = std::ranges::find(out.types, tensor.type, &type_total::type);
        if (total == out.types.end()) total = out.types.insert(total, type_total{tensor.type});
        ++total->tensors;
        total->elements += tensor.elements();
        total->bytes += tensor.bytes;
        out.parameters += tensor.elements();
        out.data_bytes += tensor.bytes;
    }
    std::ranges::stable_sort(out.types, std::ranges::greater{}, &type_total::bytes);
    if (out.parameters != 0)
        out.bits_per_weight = 8.0 * static_cast<double>(out.data_bytes) / static_cast<double>(out.parameters);
    return out;
}

/// What a whole listing shows.
struct listing_options {
    value_style style = {};
    bool tensors = true;
    std::string keys = "*";          ///< a pattern of matches_glob: only these keys
    std::string tensor_names = "*";  ///< likewise of tensors
};

namespace detail {

/// Lines of cells with columns padded to the widest; the last column isn't padded. Widths are in bytes.
[[nodiscard]] inline std::string align_columns(const std::vector<std::vector<std::string>>& lines) {
    std::vector<std::size_t> widths;
    for (const auto& line : lines) {
        widths.resize(std::max(widths.size(), line.size()));
        for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    }
    std::string out;
    for (const auto& line : lines) {
        out += "  ";
        for (std::size_t i = 0; i < line.size(); ++i) {
            out += line[i];
            if (i + 1 < line.size()) out.append(widths[i] - line[i].size() + 2, ' ');
        }
        out += '\n';
    }
    return out;
}

/// A positive number with two digits behind the point.
[[nodiscard]] inline std::string two_decimals(double number) {
    const auto hundredths = static_cast<std::uint64_t>(number * 100 + 0.5);
    return concat(hundredths / 100, ".", hundredths / 10 % 10, hundredths % 10);
}

/// Of a list's heading: "21", or "3 of 21" if a pattern left some out.
[[nodiscard]] inline std::string shown_of(std::size_t shown, std::size_t all) {
    return shown == all ? concat(all) : concat(shown, " of ", all);
}

}  // namespace detail

/// The listing for a person: what the file is, its parts, types, metadata, tensors. Ends with a line end; safe for a
/// terminal.
[[nodiscard]] inline std::string listing_text(const file& gguf, const listing_options& options = {}) {
    const file_summary sum = summarize(gguf);
    std::string out = concat(sum.kind, "\n");
    for (const auto& part : gguf.parts()) {
        out += concat("file ", quoted(part.path.string(), 4096), ": GGUF version ", part.version, ", ", part.size,
                      " bytes, data from byte ", part.data_offset, ", alignment ", part.alignment, "\n");
    }
    out += concat(gguf.tensors().size(), " tensors, ", sum.parameters, " parameters, ", sum.data_bytes, " bytes");
    if (sum.parameters != 0) out += concat(", ", detail::two_decimals(sum.bits_per_weight), " bits per weight");
    out += '\n';
    std::vector<std::vector<std::string>> lines;
    for (const auto& type : sum.types) {
        lines.push_back({std::string(name(type.type)), concat(type.tensors, type.tensors == 1 ? " tensor" : " tensors"),
                         concat(type.elements, " parameters"), concat(type.bytes, " bytes")});
    }
    out += detail::align_columns(lines);
    lines.clear();
    for (auto row : key_rows(gguf, options.style)) {
        if (!matches_glob(options.keys, row.key)) continue;
        lines.push_back({std::move(row.key), std::move(row.type), std::move(row.text)});
    }
    out += concat("metadata (", detail::shown_of(lines.size(), gguf.meta().size()), "):\n", detail::align_columns(lines));
    if (!options.tensors) return out;
    lines.clear();
    for (auto row : tensor_rows(gguf)) {
        if (!matches_glob(options.tensor_names, row.name)) continue;
        lines.push_back({std::move(row.name), std::string(row.type), std::move(row.shape), concat(row.bytes, " bytes"),
                         gguf.parts().size() > 1 ? concat("part ", row.part + 1, ", byte ", row.offset)
                                                 : concat("byte ", row.offset)});
    }
    return out + concat("tensors (", detail::shown_of(lines.size(), gguf.tensors().size()), "):\n", detail::align_columns(lines));
}

/// The listing as one JSON object on one line; arrays are whole, so a vocabulary is in it. Valid whatever the file
/// says.
[[nodiscard]] inline std::string listing_json(const file& gguf, const listing_options& options = {}) {
    const file_summary sum = summarize(gguf);
    std::string out = concat("{\"kind\":", json_text(sum.kind), ",\"parts\":[");
    std::string_view comma;
    const auto separate = [&] { out += std::exchange(comma, ","); };
    for (const auto& part : gguf.parts()) {
        separate();
        out +=
            concat("{\"path\":", json_text(part.path.string()), ",\"version\":", part.version, ",\"bytes\":", part.size,
                   ",\"data_offset\":", part.data_offset, ",\"alignment\":", part.alignment, "}");
    }
    out += concat("],\"tensor_count\":", gguf.tensors().size(), ",\"parameters\":", sum.parameters,
                  ",\"tensor_bytes\":", sum.data_bytes, ",\"bits_per_weight\":", sum.bits_per_weight, ",\"types\":[");
    comma = {};
    for (const auto& type : sum.types) {
        separate();
        out += concat("{\"type\":", json_text(name(type.type)), ",\"tensors\":", type.tensors,
                      ",\"parameters\":", type.elements, ",\"bytes\":", type.bytes, "}");
    }
    out += "],\"metadata\":[";
    comma = {};
    for (const auto& [key, value] : gguf.meta().entries()) {
        if (!matches_glob(options.keys, key)) continue;
        separate();
        out += concat("{\"key\":", json_text(key), ",\"type\":", json_text(type_text(value)),
                      ",\"value\":", value_json(value), "}");
    }
    out += ']';
    if (options.tensors) {
        out += ",\"tensors\":[";
        comma = {};
        for (const auto& tensor : gguf.tensors()) {
            if (!matches_glob(options.tensor_names, tensor.name)) continue;
            separate();
            out += concat("{\"name\":", json_text(tensor.name), ",\"type\":", json_text(name(tensor.type)),
                          ",\"shape\":", shape_text(tensor), ",\"bytes\":", tensor.bytes, ",\"offset\":", tensor.offset,
                          ",\"part\":", tensor.part, "}");
        }
        out += ']';
    }
    out += '}';
    return out;
}

}  // namespace colibri::gguf
