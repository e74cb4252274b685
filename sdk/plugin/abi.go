package plugin

// The numbers of version 1 of the contract between host and guest; ABI.md says what they mean.
// They are for ever: bits and statuses are only added, with a line of history each.
//
//	1.0: everything here

// Sizes and magics of the two structures that cross the border.
const (
	DescriptorSize  = 64
	DescriptorMagic = 0x31445450 // "PTD1"
	BatchHeaderSize = 128
	BatchMagic      = 0x31425450 // "PTB1"
	MajorVersion    = 1
)

// What a module can be.
const (
	KindFilter    = 1
	KindAggregate = 2
)

// Columns that a module asks for and that a batch has.
const (
	NeedCID     = 1
	NeedMOID    = 2
	NeedMID     = 4
	NeedCap     = 8
	NeedAcq     = 16
	NeedGID     = 32
	NeedOffsets = 64
	NeedData    = 128
	NeedRuns    = 256
	NeedSeries  = 512
)

// Flags of a descriptor, which say what the host may do with states and what people may expect.
const (
	FlagMergeOrdered      = 1 // the order of merging matters
	FlagDependsOnBatches  = 2 // a floating-point result depends on how rows are cut into batches
	FlagGrows             = 4 // states own memory and move only through pentad_save and pentad_load
	FlagLinksPredecessors = 8 // pentad_link_predecessor gives a state its predecessor
)

// Statuses that a guest returns. Modules may use -100 and below for errors of their own.
const (
	StatusOK          = 0
	StatusParams      = -1
	StatusPayload     = -2
	StatusCapacity    = -3
	StatusMemory      = -4
	StatusUnsupported = -5
)
