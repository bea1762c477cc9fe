// Macros of other headers with names that C++ code may use: a program may include those headers
// before tern's. Found by searching the headers of Qt 5, X11, glibc, curses and MinGW for macros
// whose names occur in tern's headers, plus similar short names.
#pragma once

// Qt, without QT_NO_KEYWORDS.
#define slots
#define signals public
#define emit
#define foreach for
#define forever for (;;)

// <complex.h> of C, which lapacke.h includes.
#define I (__extension__ 1.0iF)

// <X11/Xlib.h> and <X11/X.h>.
#define None 0L
#define Bool int
#define Status int
#define True 1
#define False 0
#define Success 0
#define Always 2
#define Above 0
#define Below 1
#define Complex 0
#define Convex 2
#define Expose 12
#define FocusIn 9
#define KeyPress 2
#define CursorShape 0
#define Unsorted 0

// <windows.h>. libstdc++ undefines min and max.
#define near
#define far
#define small char
#define hyper long
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define ERROR 0
#define DELETE 0x00010000L
#define CONST const
#define VOID void
#define RELATIVE 2
#define ABSOLUTE 1
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))

// Loggers, test frameworks, and single projects.
#define DEBUG 1
#define TRACE 1
#define LOG(level) level
#define CHECK(condition) (condition)
#define ASSERT(condition) (condition)
#define EXPECT(condition) (condition)
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define PI 3.14159265358979323846
#define EPS 1e-9
#define MIN(a, b) (((a) < (b)) ? (a) : (b))
#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define SIZE 1024
#define BLOCK 64
#define OK 0
#define ERR (-1)
#define TRUE 1
#define FALSE 0
#define YES 1
#define NO 0
#define EMPTY 0
#define _(text) text
