/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Two words to the compiler. */
#ifndef SPUR_WORDS_H
#define SPUR_WORDS_H

#define SPUR_INLINE static inline __attribute__((always_inline))
/* The compiler forgets what it knows of a number, so that the bound which the verifier wants to see stays in the code. */
#define SPUR_OPAQUE(number) __asm__ volatile("" : "+r"(number))

#endif
