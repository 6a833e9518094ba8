// Makes an input range of anything that gives pieces of text one by one.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace colibri {

/// Iterates over `source.next()`, a result<std::optional<std::string_view>>, until it gives nothing. Each piece is valid until the
/// next. Advancing throws `exception` on an error. The source outlives it.
template <class Source>
class piece_iterator {
public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    piece_iterator() = default;
    explicit piece_iterator(Source* from) : from_(from) { ++*this; }
    [[nodiscard]] std::string_view operator*() const noexcept { return piece_; }
    piece_iterator& operator++() {
        const auto got = from_->next().value();
        if (got) piece_ = *got;
        else from_ = nullptr;
        return *this;
    }
    void operator++(int) { ++*this; }
    [[nodiscard]] bool operator==(std::default_sentinel_t) const noexcept { return from_ == nullptr; }

private:
    Source* from_ = nullptr;
    std::string_view piece_;
};

}  // namespace colibri
