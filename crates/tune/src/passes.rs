//! Settings that allow each other: one may be refused until another has changed (an interface's MTU by the one below it, a
//! lowest clock by the highest).

/// Tries each in turn, and those that failed once more as long as others succeed. What is left failed for good.
pub(crate) fn in_passes<T, E>(items: Vec<T>, mut attempt: impl FnMut(&T) -> Result<(), E>) -> Vec<(T, E)> {
    let mut left = items;
    loop {
        let before = left.len();
        let mut failed = Vec::new();
        for item in left {
            if let Err(e) = attempt(&item) {
                failed.push((item, e));
            }
        }
        if failed.is_empty() || failed.len() == before {
            return failed;
        }
        left = failed.into_iter().map(|(item, _)| item).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::in_passes;

    #[test]
    fn what_depends_on_a_later_one_is_tried_again() {
        let mut done: Vec<u32> = Vec::new();
        // Each needs the one above it; 9 never works.
        let left = in_passes(vec![1, 2, 9, 3], |n| {
            let ready = *n == 3 || done.contains(&(n + 1));
            if ready {
                done.push(*n)
            }
            ready.then_some(()).ok_or("not yet")
        });
        assert_eq!((done, left), (vec![3, 2, 1], vec![(9, "not yet")]));
    }
}
