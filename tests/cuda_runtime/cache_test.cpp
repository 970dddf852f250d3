// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/cache.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <random>

#include "support.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Digest key_of(int number) { return sha256("key " + std::to_string(number)); }

std::string noise(size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// Makes a file look unused for that long.
void age(const std::string& path, std::chrono::minutes by) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - by);
}

class CacheTest : public ::testing::Test {
 protected:
  std::string only_file() const {
    const std::vector<std::string> names = files_of(folder_ / "cache");
    EXPECT_EQ(names.size(), 1u);
    return folder_ / ("cache/" + names.at(0));
  }
  std::string file_of(int number) const {
    return folder_ / ("cache/" + hex(key_of(number)) + ".cubin.coda");
  }

  TestFolder folder_;
  CacheSettings settings_ = {folder_ / "cache", 1 << 30, ""};
  Warnings warnings_;
};

TEST_F(CacheTest, returns_what_was_stored_under_the_same_key) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{79}, size_t{100000}}) {
    Cache cache(settings_);
    const Digest key = key_of(static_cast<int>(bytes));
    EXPECT_EQ(cache.load(key), std::nullopt);
    cache.store(key, noise(bytes, 1));
    EXPECT_EQ(cache.load(key), noise(bytes, 1));
    EXPECT_EQ(Cache(settings_).load(key), noise(bytes, 1));
    EXPECT_EQ(cache.load(key_of(-1)), std::nullopt);
  }
  EXPECT_EQ(warnings_.text(), "");
}

TEST_F(CacheTest, makes_a_folder_for_this_user_alone) {
  Cache(settings_).store(key_of(1), "payload");
  struct stat status;
  ASSERT_EQ(stat((folder_ / "cache").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, takes_a_file_with_any_changed_byte_as_a_miss_and_builds_it_again) {
  Cache cache(settings_);
  const std::string payload = noise(97, 2);
  cache.store(key_of(1), payload);
  const std::string path = only_file(), good = contents(path);
  for (size_t i = 0; i < good.size(); ++i)
    for (const int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      overwrite(path, bad);
      warnings_.clear();
      ASSERT_EQ(cache.load(key_of(1)), std::nullopt) << "byte " << i << " bit " << bit;
      ASSERT_EQ(warnings_.count(), 1u) << warnings_.text();
    }
  cache.store(key_of(1), payload);
  warnings_.clear();
  EXPECT_EQ(cache.load(key_of(1)), payload);
  EXPECT_EQ(warnings_.count(), 0u);
}

TEST_F(CacheTest, takes_a_file_of_any_other_length_as_a_miss) {
  Cache cache(settings_);
  cache.store(key_of(1), noise(97, 3));
  const std::string path = only_file(), good = contents(path);
  for (size_t length = 0; length < good.size(); ++length) {
    overwrite(path, good.substr(0, length));
    warnings_.clear();
    ASSERT_EQ(cache.load(key_of(1)), std::nullopt) << length;
    ASSERT_EQ(warnings_.count(), 1u) << length;
  }
  overwrite(path, good + '\0');
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
  overwrite(path, good);
  EXPECT_EQ(cache.load(key_of(1)), noise(97, 3));
}

TEST_F(CacheTest, takes_foreign_files_of_the_right_name_as_a_miss) {
  Cache cache(settings_);
  cache.store(key_of(1), "one");
  cache.store(key_of(2), "two");
  warnings_.clear();

  fs::copy_file(file_of(2), file_of(1), fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt) << "the entry of another key";
  overwrite(file_of(1), "#!/bin/sh\necho hello\n");
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt) << "a script";
  fs::remove(file_of(1));
  ASSERT_EQ(mkfifo(file_of(1).c_str(), 0600), 0);
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt) << "a pipe";
  EXPECT_EQ(warnings_.count(), 3u) << warnings_.text();
  cache.store(key_of(1), "one");
  EXPECT_EQ(cache.load(key_of(1)), "one") << "after all of these";

  fs::remove(file_of(1));
  fs::create_directory(file_of(1));
  warnings_.clear();
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt) << "a folder";
  cache.store(key_of(1), "one");
  EXPECT_EQ(warnings_.count(), 2u) << warnings_.text();
  EXPECT_THAT(files_of(folder_ / "cache"), ::testing::SizeIs(2)) << "and no temporary file";
}

TEST_F(CacheTest, sixteen_processes_at_once_leave_one_file) {
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const std::string payload = noise(300000, 4);
  std::vector<pid_t> children(16);
  for (pid_t& child : children)
    child = start_child([&] {
      close(gate[1]);
      char byte;
      if (read(gate[0], &byte, 1) != 0) return 9;  // until the parent opens the gate
      Cache cache(settings_);
      for (int round = 0; round < 4; ++round) {
        const std::optional<std::string> found = cache.load(key_of(1));
        if (found && *found != payload) return 1;
        cache.store(key_of(1), payload);
        if (cache.load(key_of(1)) != payload) return 2;
      }
      return warnings_.count() == 0 ? 0 : 3;
    });
  close(gate[0]);
  close(gate[1]);
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(only_file(), file_of(1));
  EXPECT_EQ(Cache(settings_).load(key_of(1)), payload);
}

TEST_F(CacheTest, processes_that_write_and_evict_at_once_stay_within_the_limit) {
  settings_.limit = 8 * 1100;
  std::vector<pid_t> children(8);
  for (int i = 0; i < 8; ++i)
    children[i] = start_child([&, i] {
      Cache cache(settings_);
      for (int round = 0; round < 15; ++round) {
        const int number = (i * 7 + round) % 40;
        const std::optional<std::string> found = cache.load(key_of(number));
        if (found && *found != noise(1000, number)) return 1;
        cache.store(key_of(number), noise(1000, number));
      }
      return warnings_.count() == 0 ? 0 : 3;
    });
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  Cache(settings_).store(key_of(99), noise(1000, 99));
  uintmax_t total = 0;
  for (const std::string& name : files_of(folder_ / "cache")) {
    EXPECT_THAT(name, ::testing::EndsWith(".cubin.coda"));
    total += fs::file_size(folder_ / ("cache/" + name));
  }
  EXPECT_LE(total, settings_.limit);
  EXPECT_GT(total, settings_.limit / 2);
}

TEST_F(CacheTest, evicts_what_was_used_longest_ago_and_only_what_is_its_own) {
  settings_.limit = 4 * (1000 + 80);
  Cache cache(settings_);
  for (int i = 0; i < 4; ++i) {
    cache.store(key_of(i), noise(1000, i));
    age(file_of(i), std::chrono::minutes(100 - i));
  }
  overwrite(folder_ / "cache/thesis.tex", noise(100000, 7));
  EXPECT_EQ(cache.load(key_of(0)), noise(1000, 0)) << "and so it is the newest";
  cache.store(key_of(4), noise(1000, 4));
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
  for (const int i : {0, 2, 3, 4}) EXPECT_EQ(cache.load(key_of(i)), noise(1000, i)) << i;
  EXPECT_EQ(contents(folder_ / "cache/thesis.tex"), noise(100000, 7));
  EXPECT_EQ(warnings_.text(), "");
}

TEST_F(CacheTest, does_not_keep_what_exceeds_the_limit_alone) {
  settings_.limit = 1000;
  Cache cache(settings_);
  cache.store(key_of(1), noise(100, 1));
  cache.store(key_of(2), noise(1000, 2));
  EXPECT_EQ(cache.load(key_of(1)), noise(100, 1));
  EXPECT_EQ(cache.load(key_of(2)), std::nullopt);
  EXPECT_EQ(warnings_.count(), 1u) << warnings_.text();
}

TEST_F(CacheTest, removes_temporary_files_that_a_crash_left_behind) {
  Cache cache(settings_);
  cache.store(key_of(1), "one");
  overwrite(folder_ / "cache/.coda-abcdef", "half");
  age(folder_ / "cache/.coda-abcdef", std::chrono::minutes(90));
  overwrite(folder_ / "cache/.coda-ghijkl", "being written");
  cache.store(key_of(2), "two");
  EXPECT_THAT(files_of(folder_ / "cache"),
              AllOf(::testing::SizeIs(3), ::testing::Contains(".coda-ghijkl")));
}

TEST_F(CacheTest, does_without_a_folder_that_cannot_be_made) {
  overwrite(folder_ / "cache", "a file");
  settings_.folder = folder_ / "cache/below";
  Cache cache(settings_);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(cache.load(key_of(i)), std::nullopt);
    cache.store(key_of(i), "payload");
    EXPECT_EQ(cache.keep_source("name", "text"), "");
  }
  EXPECT_EQ(warnings_.count(), 1u) << warnings_.text();
  EXPECT_THAT(warnings_.text(), AllOf(HasSubstr("Not a directory"), HasSubstr("CODA_CACHE_DIR")));
}

TEST_F(CacheTest, reads_from_a_read_only_folder_and_warns_once_about_writing) {
  Cache(settings_).store(key_of(1), "one");
  ASSERT_EQ(chmod(file_of(1).c_str(), 0644), 0);
  ASSERT_EQ(chmod((folder_ / "cache").c_str(), 0555), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  const pid_t child = start_child([&] {
    // Root may write everywhere.
    if (geteuid() == 0 && setuid(65534) != 0) return 1;
    Cache cache(settings_);
    for (int i = 0; i < 3; ++i) {
      if (cache.load(key_of(1)) != "one") return 2;
      cache.store(key_of(2), "two");
      if (cache.load(key_of(2))) return 3;
    }
    return warnings_.count() == 1 ? 0 : 4;
  });
  EXPECT_EQ(exit_code(child), 0);
  chmod((folder_ / "cache").c_str(), 0755);
  EXPECT_EQ(only_file(), file_of(1));
}

TEST_F(CacheTest, leaves_nothing_behind_where_the_disk_is_full) {
  Cache(settings_).store(key_of(1), "one");
  const pid_t child = start_child([&] {
    // A write beyond this size fails as on a full disk.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    Cache cache(settings_);
    for (int i = 2; i < 5; ++i) {
      cache.store(key_of(i), noise(5000, i));
      if (cache.load(key_of(i))) return 2;
    }
    return cache.load(key_of(1)) == "one" && warnings_.count() == 1 ? 0 : 3;
  });
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(only_file(), file_of(1));
}

class CacheSettingsTest : public ::testing::Test {
 protected:
  Environment limit_{"CODA_CACHE_LIMIT", std::nullopt}, cache_{"CODA_CACHE", std::nullopt},
      folder_{"CODA_CACHE_DIR", std::nullopt}, xdg_{"XDG_CACHE_HOME", std::nullopt},
      home_{"HOME", "/home/someone"};
  Warnings warnings_;
};

TEST_F(CacheSettingsTest, come_from_the_first_variable_that_is_set) {
  EXPECT_EQ(cache_settings().folder, "/home/someone/.cache/coda");
  EXPECT_EQ(cache_settings().limit, uint64_t{1} << 30);
  const Environment xdg("XDG_CACHE_HOME", "/scratch");
  EXPECT_EQ(cache_settings().folder, "/scratch/coda");
  const Environment folder("CODA_CACHE_DIR", "/fast/kernels");
  EXPECT_EQ(cache_settings().folder, "/fast/kernels");
  EXPECT_EQ(cache_settings().problem, "");
}

TEST_F(CacheSettingsTest, pass_over_relative_folders_that_the_system_forbids) {
  const Environment xdg("XDG_CACHE_HOME", "cache");
  EXPECT_EQ(cache_settings().folder, "/home/someone/.cache/coda");
}

TEST_F(CacheSettingsTest, without_a_home_there_is_no_cache_and_one_warning) {
  const Environment home("HOME", std::nullopt);
  Cache cache(cache_settings());
  for (int i = 0; i < 3; ++i) {
    cache.store(key_of(i), "payload");
    EXPECT_EQ(cache.load(key_of(i)), std::nullopt);
  }
  EXPECT_EQ(warnings_.count(), 1u) << warnings_.text();
  EXPECT_THAT(warnings_.text(), HasSubstr("HOME"));
}

TEST_F(CacheSettingsTest, off_means_no_cache_and_no_warning) {
  const TestFolder folder;
  const Environment place("CODA_CACHE_DIR", folder / "cache"), off("CODA_CACHE", "off");
  Cache cache(cache_settings());
  cache.store(key_of(1), "payload");
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
  EXPECT_FALSE(fs::exists(folder / "cache"));
  EXPECT_EQ(warnings_.text(), "");
}

TEST_F(CacheSettingsTest, read_a_limit_with_its_unit) {
  const auto limit = [](const char* text) {
    const Environment variable("CODA_CACHE_LIMIT", text);
    return cache_settings().limit;
  };
  EXPECT_EQ(limit("12345"), 12345u);
  EXPECT_EQ(limit("0"), 0u);
  EXPECT_EQ(limit("3K"), 3072u);
  EXPECT_EQ(limit("500M"), uint64_t{500} << 20);
  EXPECT_EQ(limit("2G"), uint64_t{2} << 30);
  EXPECT_EQ(limit("1T"), uint64_t{1} << 40);
  EXPECT_EQ(warnings_.count(), 0u) << warnings_.text();
  for (const char* text : {"a lot", "-1", "2GB", "1.5G", "G", "99999999999999T"}) {
    warnings_.clear();
    EXPECT_EQ(limit(text), uint64_t{1} << 30) << text;
    EXPECT_EQ(warnings_.count(), 1u) << text;
  }
}

}  // namespace
}  // namespace coda::cuda
