// colibri inspect --hash, --check and --diff: what needs the tensors' bytes.
#include <charconv>

#include "colibri/gguf/hash.hpp"
#include "colibri/gguf/listing.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/quant/file_check.hpp"
#include "colibri/quant/file_diff.hpp"
#include "repl/files.hpp"
#include "repl/format.hpp"
#include "repl/inspect.hpp"

namespace colibri::repl {
namespace {

using gguf::json_text;

unsigned threads_for(const options& given) {
    const auto asked = static_cast<unsigned>(given.threads.value_or(0));
    return asked != 0 ? asked : cpu_count();
}

// Four significant digits.
std::string short_number(double number) {
    char digits[64];
    return {digits, std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, 4).ptr};
}

// A JSON array of `count` texts that `each` makes.
template <class Each>
std::string json_array(std::size_t count, Each&& each) {
    std::string out = "[";
    for (std::size_t i = 0; i < count; ++i) out += concat(i == 0 ? "" : ",", each(i));
    return out + "]";
}

std::string part_name(const gguf::file& model, unsigned part) {
    return model.parts().size() > 1 ? concat(" of ", quoted(model.parts()[part].path.string(), 4096)) : std::string();
}

std::string check_text(const gguf::file& model, const quant::file_check& found) {
    std::string out;
    const auto name_of = [&](std::size_t tensor) { return quoted(model.tensors()[tensor].name); };
    for (const auto& bad : found.not_finite) {
        out += concat("tensor ", name_of(bad.tensor), ": ", counted(bad.nans, "NaN"), " and ", bad.infinities, " infinite of ",
                      model.tensors()[bad.tensor].elements(), " values, the first at ", bad.first, "\n");
    }
    for (const auto tensor : found.undecodable) {
        out += concat("tensor ", name_of(tensor), ": type ", name(model.tensors()[tensor].type), " can't be decoded here\n");
    }
    std::uint64_t unused = 0;
    for (const auto& gap : found.unused) {
        out += concat("note: bytes ", gap.offset, " to ", gap.offset + gap.bytes, part_name(model, gap.part), " belong to nothing\n");
        unused += gap.bytes;
    }
    if (found.dirty_padding != 0) out += concat("note: ", counted(found.dirty_padding, "byte"), " of padding are not 0\n");
    if (!found.in_order) out += "note: the data's order is not the list's; other programs may refuse that\n";
    return out + concat(counted(model.tensors().size(), "tensor"), ", ", found.values, " values looked at, ",
                        found.not_finite.size() + found.undecodable.size(), " tensors with faults, ", counted(unused, "unused byte"), "\n");
}

std::string check_json(const gguf::file& model, const quant::file_check& found) {
    const auto name_of = [&](std::size_t tensor) { return json_text(model.tensors()[tensor].name); };
    return concat("\"sound\":", found.sound(), ",\"values\":", found.values, ",\"not_finite\":",
                  json_array(found.not_finite.size(),
                             [&](std::size_t i) {
                                 const auto& bad = found.not_finite[i];
                                 return concat("{\"tensor\":", name_of(bad.tensor), ",\"nan\":", bad.nans, ",\"infinite\":", bad.infinities,
                                               ",\"first\":", bad.first, "}");
                             }),
                  ",\"undecodable\":", json_array(found.undecodable.size(), [&](std::size_t i) { return name_of(found.undecodable[i]); }),
                  ",\"unused\":",
                  json_array(found.unused.size(),
                             [&](std::size_t i) {
                                 const auto& gap = found.unused[i];
                                 return concat("{\"part\":", gap.part, ",\"offset\":", gap.offset, ",\"bytes\":", gap.bytes, "}");
                             }),
                  ",\"dirty_padding\":", found.dirty_padding, ",\"in_order\":", found.in_order);
}

std::string hashes_text(const gguf::file& model, const gguf::hash_comparison& found) {
    std::string out;
    for (const auto tensor : found.differing) out += concat("tensor ", quoted(model.tensors()[tensor].name), ": the hash differs from the list's\n");
    for (const auto& name : found.missing) out += concat("tensor ", quoted(name), ": in the list, but not in the file\n");
    for (const auto tensor : found.unlisted) out += concat("tensor ", quoted(model.tensors()[tensor].name), ": not in the list\n");
    if (found.same()) return out + "all hashes agree with the list\n";
    if (found.whole == false) out += "all data together: the hash differs from the list's\n";
    return out;
}

std::string hashes_json(const gguf::file& model, const gguf::hash_comparison& found) {
    const auto names = [&](const std::vector<std::size_t>& tensors) {
        return json_array(tensors.size(), [&](std::size_t i) { return json_text(model.tensors()[tensors[i]].name); });
    };
    return concat(",\"hashes\":{\"same\":", found.same(), ",\"differing\":", names(found.differing), ",\"missing\":",
                  json_array(found.missing.size(), [&](std::size_t i) { return json_text(found.missing[i]); }),
                  ",\"unlisted\":", names(found.unlisted), "}");
}

std::string shown_value(const gguf::value* value) {
    return value == nullptr ? "-" : concat(gguf::type_text(*value), " ", gguf::value_text(*value));
}
std::string shown_tensor(const gguf::tensor_info* tensor) {
    return tensor == nullptr ? "-" : concat(name(tensor->type), " ", shape_text(*tensor));
}

std::string difference_text(const quant::tensor_difference& found) {
    if (found.a == nullptr || found.b == nullptr) return "";
    if (!found.values) return found.a->dims == found.b->dims ? "the bytes differ" : "";
    const auto& values = *found.values;
    if (values.differing == 0) return "the values are equal";
    std::string out = concat(values.differing, " of ", found.a->elements(), " values, largest ", short_number(values.largest), ", rms ",
                             short_number(values.rms), " of ", short_number(values.rms_a));
    if (values.one_sided != 0) out += concat(", ", values.one_sided, " not finite in one");
    return out;
}

std::string diff_text(const quant::file_diff& found) {
    std::string out = concat("metadata: ", found.keys.size(), " differ, ", found.same_keys, " are the same\n");
    std::vector<std::vector<std::string>> lines;
    for (const auto& key : found.keys) lines.push_back({escaped(key.key), shown_value(key.a), "->", shown_value(key.b)});
    out += gguf::detail::align_columns(lines);
    out += concat("tensors: ", found.tensors.size(), " differ, ", found.same_tensors, " are the same\n");
    lines.clear();
    for (const auto& tensor : found.tensors) {
        lines.push_back({escaped((tensor.a != nullptr ? tensor.a : tensor.b)->name), shown_tensor(tensor.a), "->", shown_tensor(tensor.b),
                         difference_text(tensor)});
    }
    return out + gguf::detail::align_columns(lines);
}

std::string diff_json(const quant::file_diff& found) {
    const auto json_of = [](const gguf::value* value) {
        return value == nullptr ? "null"
                                : concat("{\"type\":", json_text(gguf::type_text(*value)), ",\"value\":", gguf::value_json(*value), "}");
    };
    const auto json_of_tensor = [](const gguf::tensor_info* tensor) {
        return tensor == nullptr ? "null" : concat("{\"type\":", json_text(name(tensor->type)), ",\"shape\":", shape_text(*tensor), "}");
    };
    return concat("{\"same\":", found.same(), ",\"same_keys\":", found.same_keys, ",\"same_tensors\":", found.same_tensors, ",\"metadata\":",
                  json_array(found.keys.size(),
                             [&](std::size_t i) {
                                 const auto& key = found.keys[i];
                                 return concat("{\"key\":", json_text(key.key), ",\"a\":", json_of(key.a), ",\"b\":", json_of(key.b), "}");
                             }),
                  ",\"tensors\":", json_array(found.tensors.size(), [&](std::size_t i) {
                      const auto& tensor = found.tensors[i];
                      std::string values = "null";
                      if (tensor.values) {
                          values = concat("{\"differing\":", tensor.values->differing, ",\"not_finite_in_one\":", tensor.values->one_sided,
                                          ",\"largest\":", tensor.values->largest, ",\"rms\":", tensor.values->rms,
                                          ",\"rms_a\":", tensor.values->rms_a, "}");
                      }
                      return concat("{\"name\":", json_text((tensor.a != nullptr ? tensor.a : tensor.b)->name), ",\"a\":", json_of_tensor(tensor.a),
                                    ",\"b\":", json_of_tensor(tensor.b), ",\"values\":", values, "}");
                  }),
                  "}\n");
}

}  // namespace

exit_code inspect_hash(const inspection& job) {
    thread_pool pool(threads_for(job.args.given));
    const auto hashes = gguf::hash_tensors(job.model, pool, job.watch("hashing"));
    if (!hashes) return job.fail(hashes.error());
    job.out.clear_progress();
    if (!job.args.given.json) {
        job.out.print(gguf::hash_list_text(job.model, *hashes));
        return exit_code::ok;
    }
    job.out.print(concat("{\"algorithm\":\"sha256\",\"hash\":", json_text(hex_text(hashes->whole)), ",\"tensors\":",
                         json_array(hashes->tensors.size(),
                                    [&](std::size_t i) {
                                        return concat("{\"name\":", json_text(job.model.tensors()[i].name),
                                                      ",\"hash\":", json_text(hex_text(hashes->tensors[i])), "}");
                                    }),
                         "}\n"));
    return exit_code::ok;
}

exit_code inspect_check(const inspection& job) {
    std::vector<gguf::hash_line> list;
    if (!job.second.empty()) {
        auto text = job.second == "-" ? read_whole_descriptor(0, "standard input") : read_whole_file(job.second);
        if (!text) return job.fail(text.error());
        auto parsed = gguf::parse_hash_list(*text);
        if (!parsed) {
            job.out.fail(concat(quoted(job.second, 4096), ": ", parsed.error().text()));
            return exit_code::usage;
        }
        list = std::move(*parsed);
    }
    thread_pool pool(threads_for(job.args.given));
    const auto found = quant::check_file(job.model, pool, job.watch("checking"));
    if (!found) return job.fail(found.error());
    std::optional<gguf::hash_comparison> hashes;
    if (!list.empty()) {
        const auto made = gguf::hash_tensors(job.model, pool, job.watch("hashing"));
        if (!made) return job.fail(made.error());
        hashes = gguf::compare_hashes(job.model, *made, list);
    }
    job.out.clear_progress();
    job.out.print(job.args.given.json ? concat("{", check_json(job.model, *found), hashes ? hashes_json(job.model, *hashes) : "", "}\n")
                                      : concat(hashes ? hashes_text(job.model, *hashes) : "", check_text(job.model, *found)));
    return found->sound() && (!hashes || hashes->same()) ? exit_code::ok : exit_code::model;
}

exit_code inspect_diff(const inspection& job) {
    const auto other = gguf::file::open(job.second);
    if (!other) {
        job.out.fail(other.error().text());
        return exit_code::model;
    }
    thread_pool pool(threads_for(job.args.given));
    const auto found = quant::diff_files(job.model, *other, pool, job.watch("comparing", false));
    if (!found) return job.fail(found.error());
    job.out.clear_progress();
    job.out.print(job.args.given.json ? diff_json(*found) : diff_text(*found));
    return found->same() ? exit_code::ok : exit_code::differs;
}

}  // namespace colibri::repl
