#include "textflag.h"

// func expandBits(bits *byte, e *expansion, places *[256][8]uint8, mids, out *int64, rows int)
TEXT ·expandBits(SB), NOSPLIT, $0-48
	MOVQ bits+0(FP), SI
	MOVQ e+8(FP), AX
	MOVQ places+16(FP), BX
	MOVQ mids+24(FP), DX
	MOVQ out+32(FP), DI
	MOVQ rows+40(FP), R11
	MOVQ 0(AX), CX           // the next bit
	MOVQ 8(AX), R10          // the end of all
	MOVQ 16(AX), R8          // ones before
	MOVQ 24(AX), R9          // at most
	SUBQ CX, R10
	ADDQ $7, R10
	SARQ $3, R10             // how many times eight bits there are
	JLE  expanded
	MOVQ CX, R12
	SHRQ $3, R12
	ADDQ R12, SI
	ANDQ $7, CX              // bits before the next in its byte
	CMPQ R11, $8
	JLT  expandLast

expandNext:
	MOVWLZX   (SI), AX
	SHRXL     CX, AX, AX
	MOVBLZX   AX, AX
	MOVQ      R8, R12
	CMPQ      R8, R9
	CMOVQGT   R9, R12
	VPMOVZXBQ (BX)(AX*8), Z0
	VPERMQ    (DX)(R12*8), Z0, Z1
	VMOVDQU64 Z1, (DI)
	POPCNTL   AX, AX
	ADDQ      AX, R8
	MOVL      $8, R13
	SUBQ      AX, R13        // rows
	LEAQ      (DI)(R13*8), DI
	SUBQ      R13, R11
	INCQ      SI
	DECQ      R10
	JZ        expanded
	CMPQ      R11, $8
	JGE       expandNext

// Fewer than eight rows are left.
expandLast:
	TESTQ     R11, R11
	JLE       expanded
	MOVWLZX   (SI), AX
	SHRXL     CX, AX, AX
	MOVBLZX   AX, AX
	MOVQ      R8, R12
	CMPQ      R8, R9
	CMOVQGT   R9, R12
	VPMOVZXBQ (BX)(AX*8), Z0
	VPERMQ    (DX)(R12*8), Z0, Z1
	MOVL      $1, R13
	SHLXL     R11, R13, R13
	DECL      R13
	KMOVW     R13, K1
	VMOVDQU64 Z1, K1, (DI)
	POPCNTL   AX, AX
	ADDQ      AX, R8
	MOVL      $8, R13
	SUBQ      AX, R13
	LEAQ      (DI)(R13*8), DI
	SUBQ      R13, R11
	INCQ      SI
	DECQ      R10
	JNZ       expandLast

expanded:
	VZEROUPPER
	RET

// func numberRows(z *zeroCounts, bits *byte, sel *uint32, rows int, out *[64]uint16)
TEXT ·numberRows(SB), NOSPLIT, $0-40
	MOVQ  z+0(FP), R15
	MOVQ  bits+8(FP), SI
	MOVQ  sel+16(FP), BX
	MOVQ  rows+24(FP), CX
	MOVQ  out+32(FP), DI
	MOVQ  0(R15), R8         // the first word
	MOVQ  8(R15), R9
	DECQ  R9                 // the last one
	MOVQ  16(R15), R10       // words a row
	MOVQ  24(R15), R11
	MOVQ  32(R15), R12       // the first row
	IMULQ R10, R12
	SUBQ  R12, R11           // where row 0 would be
	MOVQ  R8, R13
	SHLQ  $6, R13
	SUBQ  40(R15), R13
	DECQ  R13                // device = R13 + bit - row
	LEAQ  (SI)(R8*8), SI
	ADDQ  $48, R15           // zeros before words
	MOVL  $1, R12

numberNext:
	MOVL    (BX), AX
	MOVQ    AX, DX
	IMULQ   R10, DX
	ADDQ    R11, DX
	SHRQ    $16, DX
	CMPQ    DX, R9
	CMOVQHI R9, DX
	CMPL    AX, (R15)(DX*4)  // most are in this word, or next to it
	SBBQ    $0, DX
	CMPL    AX, 4(R15)(DX*4)
	SBBQ    $-1, DX
	CMPL    AX, (R15)(DX*4)
	JCS     numberBefore
	CMPL    AX, 4(R15)(DX*4)
	JCC     numberAfter

numberFound:
	MOVL   AX, R14
	SUBL   (R15)(DX*4), R14
	SHLXQ  R14, R12, R14
	MOVQ   (SI)(DX*8), R8
	NOTQ   R8
	PDEPQ  R8, R14, R14      // the zero of the row
	TZCNTQ R14, R14
	SHLQ   $6, DX
	ADDQ   DX, R14
	ADDQ   R13, R14
	SUBQ   AX, R14
	MOVW   R14, (DI)
	ADDQ   $2, DI
	ADDQ   $4, BX
	DECQ   CX
	JNZ    numberNext
	RET

numberBefore:
	DECQ DX
	CMPL AX, (R15)(DX*4)
	JCS  numberBefore
	JMP  numberFound

numberAfter:
	INCQ DX
	CMPL AX, 4(R15)(DX*4)
	JCC  numberAfter
	JMP  numberFound

// func selectOnes(bits *byte, bit, end, n, more int) (first, last int)
TEXT ·selectOnes(SB), NOSPLIT, $0-56
	MOVQ bits+0(FP), SI
	MOVQ bit+8(FP), CX
	MOVQ end+16(FP), DX
	MOVQ n+24(FP), R8
	MOVQ more+32(FP), R9
	MOVQ CX, BX
	ANDQ $~63, BX            // the first bit of its word
	MOVQ BX, AX
	SHRQ $3, AX
	ADDQ AX, SI
	MOVQ $-1, R10
	SHLXQ CX, R10, R10
	ANDQ (SI), R10           // what is left of the word

selectNext:
	POPCNTQ R10, R11
	CMPQ    R8, R11
	JLT     selectFound
	SUBQ    R11, R8
	ADDQ    $8, SI
	ADDQ    $64, BX
	CMPQ    BX, DX
	JGE     selectNone
	MOVQ    (SI), R10
	JMP     selectNext

selectFound:
	MOVQ    $1, R12
	SHLXQ   R8, R12, R12
	PDEPQ   R10, R12, R12    // the bit that is searched for
	TZCNTQ  R12, R13
	ADDQ    BX, R13
	CMPQ    R13, DX
	CMOVQGT DX, R13
	MOVQ    R13, first+40(FP)
	DECQ    R12
	ANDNQ   R10, R12, R10    // without those before it
	MOVQ    R9, R8

selectLast:
	POPCNTQ R10, R11
	CMPQ    R8, R11
	JLT     selectEnd
	SUBQ    R11, R8
	ADDQ    $8, SI
	ADDQ    $64, BX
	CMPQ    BX, DX
	JGE     selectToEnd
	MOVQ    (SI), R10
	JMP     selectLast

selectEnd:
	MOVQ    $1, R12
	SHLXQ   R8, R12, R12
	PDEPQ   R10, R12, R12
	TZCNTQ  R12, R13
	ADDQ    BX, R13
	CMPQ    R13, DX
	CMOVQGT DX, R13
	MOVQ    R13, last+48(FP)
	RET

selectNone:
	MOVQ DX, first+40(FP)

selectToEnd:
	MOVQ DX, last+48(FP)
	RET
