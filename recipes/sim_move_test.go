package recipes_test

import ()

import ()

// spelled is the path by which a step names a lock.
func (w *simWorld) spelled(lock string, st simStep) string {
	return w.node(lock)
}
