#ifndef UNISONO_TESTS_C_CHECK_H
#define UNISONO_TESTS_C_CHECK_H

#include <unisono/c.h>

// Ends the program with the place and the error where something does not hold.
void check(int holds, const char* text, const char* file, int line);
// The same where a call does not end with this status, or its sentence has not this word.
void check_status(unisono_status got, unisono_status expected, const char* word, const char* text, const char* file, int line);

#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)
#define OK(call) check_status((call), UNISONO_OK, "", #call, __FILE__, __LINE__)
#define REFUSED(status, word, call) check_status((call), (status), (word), #call, __FILE__, __LINE__)

// This process, once it has joined.
extern int32_t rank, size;

// What the program does by its first argument.
void context(void);
void names(void);
void collectives(void);
void blocks(void);
void later(void);
void groups(void);
void messages(void);
void refused_buffers(void);
void refused_handles(void);
void refused_structures(void);
void mismatch(void);
void missing(void);
void killed(void);
void aborted(void);
void threads(void);

#endif
