// The datagrams of tcp:// at a multicast address: an announcement comes back as it went, and no other one is believed.
#include <gtest/gtest.h>

#include <string>

#include "covers.h"
#include "rendezvous/announcement.h"

namespace unisono::rendezvous {
namespace {

Announcement full_announcement() {
  Announcement said;
  said.group_name = "a group, with spaces\tand more";
  said.nonce = std::string(32, 'n');
  said.member = {3, 4711, "host", "machine"};
  said.number = 4711;
  said.heard = {1, 0xfedcba9876543210U, 3};
  said.world_size = 5;
  said.port = 40001;
  said.library = "version 1.2.3";
  said.job = std::string(64, 'j');
  said.agreed = true;
  said.refusal = {Announcement::Refusal::Kind::mismatch, "text"};
  return said;
}

TEST(Announcement, AnAnnouncementComesBackAsItWent) {
  COVERS("T-43");
  const Announcement said = full_announcement();
  const Heard heard = hear(encode(said, "t", "here"), said.group_name, "t", "here");
  ASSERT_EQ(heard.hearing, Hearing::ours);
  const Announcement& back = heard.announcement;
  EXPECT_EQ(back.nonce, said.nonce);
  EXPECT_EQ(back.number, 4711U);
  EXPECT_EQ(back.heard, said.heard);
  EXPECT_EQ(back.member.rank, 3);
  EXPECT_EQ(back.member.pid, 4711);
  EXPECT_EQ(back.member.host, "host");
  EXPECT_EQ(back.member.machine, "machine");
  EXPECT_EQ(back.world_size, 5);
  EXPECT_EQ(back.port, 40001);
  EXPECT_EQ(back.library, "version 1.2.3");
  EXPECT_EQ(back.job, said.job);
  EXPECT_TRUE(back.agreed);
  ASSERT_TRUE(back.refusal);
  EXPECT_EQ(back.refusal->kind, Announcement::Refusal::Kind::mismatch);
  EXPECT_EQ(back.refusal->text, "text");
}

TEST(Announcement, AnAnnouncementIsOursOnlyAsItWasWritten) {  // no length that it says is believed
  COVERS("K-15");
  const Announcement said = full_announcement();
  const std::string bytes = encode(said, "t", "here");
  const auto hearing = [&](const std::string& datagram) { return hear(datagram, said.group_name, "t", "here").hearing; };
  EXPECT_EQ(hear(bytes, "another", "t", "here").hearing, Hearing::another_group);
  EXPECT_EQ(hear(bytes, said.group_name, "u", "here").hearing, Hearing::forged);
  EXPECT_EQ(hear(bytes, said.group_name, "", "here").hearing, Hearing::forged);
  EXPECT_EQ(hear(bytes, said.group_name, "t", "there").hearing, Hearing::forged);
  std::string newer = bytes;
  newer[8] = 9;
  EXPECT_EQ(hearing(newer), Hearing::another_version);
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(hearing(bytes.substr(0, n)), Hearing::ours) << n;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    EXPECT_NE(hearing(damaged), Hearing::ours) << i;
  }
  EXPECT_EQ(hearing(bytes + "x"), Hearing::forged);
  EXPECT_EQ(hearing(std::string(5000, 'x')), Hearing::nothing);
}

TEST(Announcement, AnAnnouncementWithoutATokenIsReadToItsEndOnly) {
  Announcement said = full_announcement();
  const std::string bytes = encode(said, "", "here");
  EXPECT_EQ(hear(bytes, said.group_name, "", "here").hearing, Hearing::ours);
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(hear(bytes.substr(0, n), said.group_name, "", "here").hearing, Hearing::ours) << n;
  said.member.rank = 5;  // not within its world
  EXPECT_NE(hear(encode(said, "", "here"), said.group_name, "", "here").hearing, Hearing::ours);
  said.member.rank = -2;
  EXPECT_NE(hear(encode(said, "", "here"), said.group_name, "", "here").hearing, Hearing::ours);
}

TEST(Announcement, AnAnnouncementFitsADatagramWhateverItSays) {
  Announcement said = full_announcement();
  const std::string longest(10000, 'x');
  for (std::string* text : {&said.group_name, &said.nonce, &said.library, &said.job, &said.refusal->text}) *text = longest;
  said.member.host = said.member.machine = longest;
  said.heard.resize(10000, 1);
  EXPECT_LE(encode(said, "t", "here").size(), MulticastSocket::largest);
}

}  // namespace
}  // namespace unisono::rendezvous
