package held

// Moves are the states in which a holding may be, and for each the ones that it may move to.
func Moves() map[string][]string {
	all := map[string][]string{}
	for from := starting; from <= over; from++ {
		for next := starting; next <= over; next++ {
			if s := from; s.to(next) {
				all[from.String()] = append(all[from.String()], s.String())
			}
		}
	}
	return all
}
