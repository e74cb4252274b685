#include "textflag.h"

// func filterSixteens(from *byte, sixteens int, u *sixteenUnpacking, m *packedMatch,
//	out *uint32) (k int)
TEXT ·filterSixteens(SB), NOSPLIT, $0-48
	MOVQ         from+0(FP), SI
	MOVQ         sixteens+8(FP), CX
	MOVQ         u+16(FP), BX
	MOVQ         m+24(FP), R11
	MOVQ         out+32(FP), DI
	VMOVDQU64    0(BX), Z0          // bytes of each value
	VMOVDQU64    64(BX), Z1         // bits that lie before it
	VPBROADCASTD 192(BX), Z2        // its bits
	MOVQ         200(BX), R8        // bytes of sixteen values
	VPBROADCASTD 0(R11), Z3         // low
	VPBROADCASTD 4(R11), Z4         // span
	VPBROADCASTD 8(R11), Z5         // position
	VPADDD       128(BX), Z5, Z5
	MOVL         $16, AX
	VPBROADCASTD AX, Z6
	XORQ         AX, AX

next:
	VPERMB      (SI), Z0, Z7
	VPSRLVD     Z1, Z7, Z7
	VPANDD      Z2, Z7, Z7
	VPSUBD      Z3, Z7, Z7
	VPCMPUD     $2, Z4, Z7, K1
	VPCOMPRESSD.Z Z5, K1, Z8
	VMOVDQU32   Z8, (DI)(AX*4)
	KMOVW       K1, DX
	POPCNTL     DX, DX
	ADDQ        DX, AX
	VPADDD      Z6, Z5, Z5
	ADDQ        R8, SI
	DECQ        CX
	JNZ         next
	VZEROUPPER
	MOVQ        AX, k+40(FP)
	RET

// func filterEights(from *byte, eights int, u *unpacking, m *packedMatch, kept *[256][8]uint8,
//	out *uint32) (k int)
TEXT ·filterEights(SB), NOSPLIT, $0-56
	MOVQ         from+0(FP), SI
	MOVQ         eights+8(FP), CX
	MOVQ         u+16(FP), BX
	MOVQ         m+24(FP), R11
	MOVQ         kept+32(FP), R10
	MOVQ         out+40(FP), DI
	VMOVDQU      0(BX), Y0          // bytes of each value
	VMOVDQU      32(BX), Y1         // bits that lie before it
	VPBROADCASTD 64(BX), Y2         // its bits
	MOVQ         72(BX), R8         // bytes of eight values
	MOVQ         R8, R9
	SHRQ         $1, R9
	VPBROADCASTD 0(R11), Y3         // low
	VPBROADCASTD 4(R11), Y4         // span
	VPBROADCASTD 8(R11), Y5         // position
	MOVL         $8, AX
	VMOVD        AX, X6
	VPBROADCASTD X6, Y6
	XORQ         AX, AX

next:
	VMOVDQU     (SI), X7
	VINSERTI128 $1, (SI)(R9*1), Y7, Y7
	VPSHUFB     Y0, Y7, Y7
	VPSRLVD     Y1, Y7, Y7
	VPAND       Y2, Y7, Y7
	VPSUBD      Y3, Y7, Y7
	VPMINUD     Y4, Y7, Y8
	VPCMPEQD    Y7, Y8, Y8
	VMOVMSKPS   Y8, DX
	VPMOVZXBD   (R10)(DX*8), Y9
	VPADDD      Y5, Y9, Y9
	VMOVDQU     Y9, (DI)(AX*4)
	POPCNTL     DX, DX
	ADDQ        DX, AX
	VPADDD      Y6, Y5, Y5
	ADDQ        R8, SI
	DECQ        CX
	JNZ         next
	VZEROUPPER
	MOVQ        AX, k+48(FP)
	RET

// func filterWideEights(from *byte, eights int, u *wideUnpacking, m *wideMatch,
//	kept *[256][8]uint8, out *uint32) (k int)
TEXT ·filterWideEights(SB), NOSPLIT, $0-56
	MOVQ         from+0(FP), SI
	MOVQ         eights+8(FP), CX
	MOVQ         u+16(FP), BX
	MOVQ         m+24(FP), R11
	MOVQ         kept+32(FP), R10
	MOVQ         out+40(FP), DI
	VMOVDQU      0(BX), Y0          // bytes of the first four values
	VMOVDQU      32(BX), Y1         // and of the others
	VMOVDQU      64(BX), Y2         // bits that lie before them
	VMOVDQU      96(BX), Y3
	VPBROADCASTQ 128(BX), Y4        // their bits
	MOVQ         136(BX), R8        // bytes of eight values
	MOVQ         144(BX), R9        // where the second, third and fourth pair start
	MOVQ         152(BX), R12
	MOVQ         160(BX), R13
	VPBROADCASTQ 0(R11), Y5         // low
	VPBROADCASTQ 8(R11), Y6         // span, with the sign turned: comparisons are signed
	VPBROADCASTQ 16(R11), Y7        // the sign
	VPBROADCASTD 24(R11), Y8        // position
	MOVL         $8, AX
	VMOVD        AX, X9
	VPBROADCASTD X9, Y9
	XORQ         AX, AX

next:
	VMOVDQU     (SI), X10
	VINSERTI128 $1, (SI)(R9*1), Y10, Y10
	VMOVDQU     (SI)(R12*1), X11
	VINSERTI128 $1, (SI)(R13*1), Y11, Y11
	VPSHUFB     Y0, Y10, Y10
	VPSHUFB     Y1, Y11, Y11
	VPSRLVQ     Y2, Y10, Y10
	VPSRLVQ     Y3, Y11, Y11
	VPAND       Y4, Y10, Y10
	VPAND       Y4, Y11, Y11
	VPSUBQ      Y5, Y10, Y10
	VPSUBQ      Y5, Y11, Y11
	VPXOR       Y7, Y10, Y10
	VPXOR       Y7, Y11, Y11
	VPCMPGTQ    Y6, Y10, Y10
	VPCMPGTQ    Y6, Y11, Y11
	VMOVMSKPD   Y10, DX
	VMOVMSKPD   Y11, R14
	SHLQ        $4, R14
	ORQ         R14, DX
	XORQ        $255, DX            // those that are not above
	VPMOVZXBD   (R10)(DX*8), Y12
	VPADDD      Y8, Y12, Y12
	VMOVDQU     Y12, (DI)(AX*4)
	POPCNTL     DX, DX
	ADDQ        DX, AX
	VPADDD      Y9, Y8, Y8
	ADDQ        R8, SI
	DECQ        CX
	JNZ         next
	VZEROUPPER
	MOVQ        AX, k+48(FP)
	RET

// func filterDense(from *byte, eights int, u *denseUnpacking, m *wideMatch, out *uint32) (k int)
TEXT ·filterDense(SB), NOSPLIT, $0-48
	MOVQ         from+0(FP), SI
	MOVQ         eights+8(FP), CX
	MOVQ         u+16(FP), BX
	MOVQ         m+24(FP), R11
	MOVQ         out+32(FP), DI
	VMOVDQU64    0(BX), Z0          // bytes of each value
	VMOVDQU64    64(BX), Z1         // bits that lie before it
	VPBROADCASTQ 128(BX), Z2        // its bits
	MOVQ         136(BX), R8        // bytes of eight values
	VPBROADCASTQ 0(R11), Z3         // low
	VPBROADCASTQ 8(R11), Z4         // span
	VPBROADCASTD 24(R11), Z5        // position
	MOVQ         $0x0706050403020100, AX
	VMOVQ        AX, X6
	VPMOVZXBD    X6, Y6
	VPADDD       Z6, Z5, Z5
	MOVL         $8, AX
	VPBROADCASTD AX, Z6
	XORQ         AX, AX

next:
	VPERMB        (SI), Z0, Z7
	VPSRLVQ       Z1, Z7, Z7
	VPANDQ        Z2, Z7, Z7
	VPSUBQ        Z3, Z7, Z7
	VPCMPUQ       $2, Z4, Z7, K1
	VPCOMPRESSD.Z Z5, K1, Z8
	VMOVDQU       Y8, (DI)(AX*4)
	KMOVW         K1, DX
	POPCNTL       DX, DX
	ADDQ          DX, AX
	VPADDD        Z6, Z5, Z5
	ADDQ          R8, SI
	DECQ          CX
	JNZ           next
	VZEROUPPER
	MOVQ          AX, k+40(FP)
	RET
