#include "textflag.h"

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
