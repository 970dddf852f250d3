// SPDX-License-Identifier: Apache-2.0
// Every program that is shown to users parses and prints; every program in tests/refused is refused
// with the very message of its first line.
#include "language/library.h"

#include <coda/error.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "round_trip.h"

namespace coda::language {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<fs::path> files(const std::string& folder, const std::string& extension) {
  std::vector<fs::path> result;
  for (const auto& entry : fs::directory_iterator(fs::path(CODA_SOURCE_DIR) / folder))
    if (entry.path().extension() == extension) result.push_back(entry.path());
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

TEST(Library, every_program_parses_and_prints) {
  std::set<std::string> names;
  for (const LibraryFile& file : library_files())
    for (const ir::Program& program : parse_file(file.text, file.name)) {
      SCOPED_TRACE(std::string(file.name) + " " + program.name);
      EXPECT_TRUE(names.insert(program.name).second) << "two programs of one name";
      expect_round_trip(program);
    }
  for (const char* name : {"residual_rms", "rmsnorm_swiglu", "rope", "qk_norm_rope", "lse_target",
                           "layernorm_stats", "quant_1x128", "adamw"})
    EXPECT_TRUE(names.count(name)) << name;
}

TEST(Library, the_embedded_files_are_the_files_of_the_folder) {
  const std::vector<fs::path> on_disk = files("library", ".coda");
  ASSERT_EQ(library_files().size(), on_disk.size());
  for (size_t i = 0; i < on_disk.size(); ++i) {
    EXPECT_EQ(library_files()[i].name, on_disk[i].filename().string());
    EXPECT_EQ(library_files()[i].text, read(on_disk[i]));
  }
}

TEST(Library, files_have_a_head_comment_and_programs_at_most_ten_statements) {
  for (const LibraryFile& file : library_files()) {
    const std::vector<std::string> lines = lines_of(std::string(file.text));
    ASSERT_GT(lines.size(), 2u);
    EXPECT_EQ(lines[0], "coda 1") << file.name;
    EXPECT_EQ(lines[1].substr(0, 2), "# ") << file.name;
    int statements = 0;
    for (const std::string& line : lines) {
      EXPECT_LE(line.size(), 100u) << file.name << ": " << line;
      if (line.ends_with("{")) statements = 0;
      if (line.starts_with("  ") && line.find(" = ") != std::string::npos) ++statements;
      EXPECT_LE(statements, 10) << file.name << ": " << line;
    }
  }
}

TEST(Docs, every_coda_block_parses_and_prints) {
  int blocks = 0;
  for (const fs::path& path : files("docs", ".md")) {
    std::string block;
    bool inside = false;
    int number = 0;
    for (const std::string& line : lines_of(read(path))) {
      ++number;
      if (line.starts_with("```coda")) {
        inside = true;
        block.clear();
      } else if (inside && line == "```") {
        inside = false;
        ++blocks;
        SCOPED_TRACE(path.string() + ", block before line " + std::to_string(number));
        if (!block.starts_with("coda ")) block = "coda 1\n" + block;
        std::vector<ir::Program> programs;
        EXPECT_NO_THROW(programs = parse_file(block, "block")) << block;
        for (const ir::Program& program : programs) expect_round_trip(program);
      } else if (inside) {
        block += line + "\n";
      }
    }
    EXPECT_FALSE(inside) << path;
  }
  EXPECT_GT(blocks, 10);
}

TEST(Docs, the_language_lists_every_fn_of_the_prelude_as_it_is) {
  const std::vector<std::string> page =
      lines_of(read(fs::path(CODA_SOURCE_DIR) / "docs/language.md"));
  for (const std::string& line : lines_of(std::string(prelude_file().text)))
    if (line.starts_with("fn ")) {
      EXPECT_NE(std::find(page.begin(), page.end(), line), page.end()) << line;
    }
}

TEST(Refused, every_program_is_refused_with_its_message) {
  const std::vector<fs::path> paths = files("tests/refused", ".coda");
  EXPECT_GE(paths.size(), 30u);
  for (const fs::path& path : paths) {
    const std::string text = read(path), name = path.filename().string();
    const std::string first = text.substr(0, text.find('\n')), prefix = "# error: ";
    ASSERT_EQ(first.substr(0, prefix.size()), prefix) << name;
    try {
      parse_file(text, name);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), name + ":" + first.substr(prefix.size()));
      EXPECT_TRUE(error.kind() == ErrorKind::syntax || error.kind() == ErrorKind::program) << name;
    }
  }
}

}  // namespace
}  // namespace coda::language
