// SPDX-License-Identifier: Apache-2.0
#include "call/divisibility.h"
#include "call/resolve.h"

namespace coda {
namespace {

bool has_columns(const ir::Dims& dims) { return dims.columns.kind != ir::Columns::Kind::none; }

/// Whether anything of the program varies along the rows (columns), or asks how many there are.
bool varies(const ir::Program& program, bool rows) {
  const auto along = [&](const ir::Dims& dims) { return rows ? dims.rows : has_columns(dims); };
  const int symbol = rows ? ir::kSymbolM : ir::kSymbolN;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const auto* size = std::get_if<ir::SizeParameter>(&program.nodes[i]);
    if (along(program.info[i].dims) || (size && size->symbol == symbol)) return true;
  }
  for (const ir::Output& output : program.outputs)
    if (along(output.dims)) return true;
  return false;
}

}  // namespace

void Extents::agree(Known& known, int64_t value, const char* what, int64_t own,
                    const Where& where) {
  if (!known.value) {
    known.value = value;
    known.source = where.name;
  } else if (*known.value != value) {
    const std::string source =
        known.source.empty() ? "sizes()" : "'" + std::string(known.source) + "'";
    std::string got = what + std::to_string(value);
    if (own != value) got += ", told by " + std::to_string(own) + " columns";
    where.refuse(ErrorKind::shape, what + std::to_string(*known.value) + " as " + source + " tells",
                 got, "make the shapes of the arguments agree");
  }
}

void Extents::columns(const ir::Columns& columns, int64_t count,
                      const std::vector<int64_t>& symbols, const Where& where) {
  using Kind = ir::Columns::Kind;
  if (columns.kind == Kind::none) return;
  const auto text = [&] { return where.text(); };
  const auto of_call = [](const ir::Size& size) {
    return !size.powers.empty() && size.powers[0].first < ir::kFirstParameter;
  };
  if (columns.kind != Kind::all && of_call(columns.size))
    return;  // a size made of N and M: checked when they are known
  const auto [numerator, denominator] = factor_of_n(columns.width);
  int64_t width = count;
  if (columns.kind != Kind::all) {
    const int64_t size = evaluate_at(columns.size, symbols, text);
    if (columns.kind == Kind::repeat) {
      if (count != size)
        where.refuse(
            ErrorKind::shape,
            std::to_string(size) + " elements (" + to_string(columns.size, program_.symbols) + ")",
            std::to_string(count), "pass one period of the repeating table");
      return;
    }
    if (__builtin_mul_overflow(count, size, &width))
      where.refuse(ErrorKind::shape, "fewer than 2^63 columns",
                   std::to_string(count) + " groups of " + std::to_string(size),
                   "use smaller sizes");
  }
  int64_t n;
  if (__builtin_mul_overflow(width, denominator, &n))
    where.refuse(ErrorKind::shape, "fewer than 2^63 columns",
                 std::to_string(width) + " of half width", "use smaller sizes");
  if (n % numerator != 0)
    where.refuse(ErrorKind::shape, "an even number of columns, 2n", std::to_string(width),
                 "pass both halves");
  agree(n_, n / numerator, "N = ", count, where);
}

void Extents::check_columns(const ir::Columns& columns, int64_t count,
                            const std::vector<int64_t>& symbols, const Where& where) const {
  using Kind = ir::Columns::Kind;
  const auto text = [&] { return where.text(); };
  int64_t expected = 1;
  if (columns.kind == Kind::repeat) expected = evaluate_at(columns.size, symbols, text);
  if (columns.kind == Kind::all) expected = evaluate_at(columns.width, symbols, text);
  if (columns.kind == Kind::group)
    expected = evaluate_at(columns.width / columns.size, symbols, text);
  if (count != expected)
    where.refuse(ErrorKind::shape, std::to_string(expected) + " columns", std::to_string(count),
                 "make the shapes of the arguments agree");
}

void Extents::finish(std::vector<int64_t>& symbols) const {
  const auto value = [&](const Known& known, bool rows) -> int64_t {
    if (known.value) return *known.value;
    if (varies(program_, rows))
      Where{program_, {}}.refuse(ErrorKind::argument,
                                 rows ? "arguments that tell M, the number of rows"
                                      : "arguments that tell N, the number of columns",
                                 "none that does", "give both with sizes(M, N)");
    return 1;
  };
  symbols[ir::kSymbolM] = value(m_, true);
  symbols[ir::kSymbolN] = value(n_, false);
}

}  // namespace coda
