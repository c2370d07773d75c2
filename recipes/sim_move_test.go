package recipes_test

// spelled is the path by which a step names a lock.
func (w *simWorld) spelled(lock string, st simStep) string {
	return w.node(lock)
}
