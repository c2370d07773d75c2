package recipes

// Observer pending: owner Q writes it here.
type Observer interface{}

// SuspectPolicy says what becomes of leases while their session is Suspect.
type SuspectPolicy int

const (
	// KeepOnSuspect keeps a lease until the session is Lost: no false alarm for a short disconnect.
	KeepOnSuspect SuspectPolicy = iota
	// LoseOnSuspect ends a lease at the first doubt.
	LoseOnSuspect
)

// clientState is what the recipes keep per Client; its zero value must be usable.
type clientState struct{}
