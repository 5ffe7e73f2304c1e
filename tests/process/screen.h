#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::testing {

/// A terminal, as it shows the bytes that it gets: as much of ECMA-48 as the launcher uses. A code that it does not know throws.
class Screen {
 public:
  Screen(std::size_t columns, std::size_t rows) : columns_(columns), rows_(rows, Row{}) {}

  void put(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) i += put_one(text.substr(i));
  }

  /// The terminal becomes wider or narrower. Rows that are too long are broken into several, as most terminals do.
  void resize(std::size_t columns) {
    const std::size_t rows = rows_.size();
    std::vector<Row> broken;
    std::size_t cursor_row = 0, cursor_column = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t parts = std::max<std::size_t>(1, (rows_[r].size() + columns - 1) / columns);
      if (r == row_) {
        cursor_row = broken.size() + std::min(column_ / columns, parts - 1);
        cursor_column = std::min(column_, columns - 1);
      }
      for (std::size_t part = 0; part < parts; ++part) {
        const auto begin = std::min(part * columns, rows_[r].size()), end = std::min(begin + columns, rows_[r].size());
        broken.emplace_back(rows_[r].begin() + static_cast<std::ptrdiff_t>(begin), rows_[r].begin() + static_cast<std::ptrdiff_t>(end));
      }
    }
    while (broken.size() > rows && broken.back().empty() && broken.size() - 1 > cursor_row) broken.pop_back();
    while (broken.size() > rows) {
      above_.push_back(text_of(broken.front()));
      broken.erase(broken.begin());
      --cursor_row;
    }
    rows_ = std::move(broken);
    rows_.resize(rows);
    columns_ = columns;
    row_ = cursor_row;
    column_ = cursor_column;
  }

  /// All rows, with those that have scrolled out of it, without the empty ones at the end.
  std::vector<std::string> rows() const {
    std::vector<std::string> all = above_;
    for (const Row& row : rows_) all.push_back(text_of(row));
    while (!all.empty() && all.back().empty()) all.pop_back();
    return all;
  }

 private:
  using Row = std::vector<std::string>;  // a character each

  static std::string text_of(const Row& row) {
    std::string text;
    for (const std::string& each : row) text += each;
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

  void next_row() {
    if (++row_ < rows_.size()) return;
    above_.push_back(text_of(rows_.front()));
    rows_.erase(rows_.begin());
    rows_.emplace_back();
    row_ = rows_.size() - 1;
  }

  std::size_t put_one(std::string_view text) {
    if (text[0] == '\x1b') return put_code(text);
    if (text[0] == '\r') return column_ = 0, 1;
    if (text[0] == '\n') return next_row(), 1;
    std::size_t size = 1;
    while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
    if (column_ == columns_) {
      column_ = 0;
      next_row();
    }
    if (rows_[row_].size() <= column_) rows_[row_].resize(column_ + 1, " ");
    rows_[row_][column_++] = text.substr(0, size);
    return size;
  }

  std::size_t put_code(std::string_view text) {
    if (text.starts_with("\x1b"
                         "7"))
      return kept_row_ = row_, kept_column_ = column_, 2;
    if (text.starts_with("\x1b"
                         "8"))
      return row_ = kept_row_, column_ = kept_column_, 2;
    const auto end = text.find_first_not_of("0123456789;", 2);
    if (!text.starts_with("\x1b[") || end == std::string_view::npos) throw std::runtime_error("a code of an unknown kind");
    const std::string number(text.substr(2, end - 2));
    const std::size_t times = number.empty() || number.find(';') != std::string::npos ? 1 : std::stoul(number);
    switch (text[end]) {
      case 'm': break;
      case 'A': row_ -= std::min(row_, times); break;
      case 'B': row_ = std::min(row_ + times, rows_.size() - 1); break;
      case 'K': cut(rows_[row_], column_); break;
      case 'J':
        cut(rows_[row_], column_);
        for (std::size_t r = row_ + 1; r < rows_.size(); ++r) rows_[r].clear();
        break;
      default: throw std::runtime_error("a code of an unknown kind: " + std::string(text.substr(1, end)));
    }
    return end + 1;
  }
  static void cut(Row& row, std::size_t column) { row.resize(std::min(row.size(), column)); }

  std::size_t columns_;
  std::vector<Row> rows_;
  std::vector<std::string> above_;
  std::size_t row_ = 0, column_ = 0, kept_row_ = 0, kept_column_ = 0;
};

}  // namespace unisono::testing
