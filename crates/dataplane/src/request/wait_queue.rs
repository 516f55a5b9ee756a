//! The queues of requests that wait for a place at a model: for each route one, bounded, first come first served.
//!
//! [`WaitQueue::free`] calls the first requests of a queue, one for each place that became free. A request that is called
//! and does not use its place (because its client left, or because it may not call the model any more) gives it on to
//! the next one. Today places become free for all at once, when a model that was being applied is back. Locked only by
//! requests that begin or end to wait, and by those who free places.

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use parking_lot::{Mutex, MutexGuard};

/// Most requests that wait for one model.
const MAX_WAITING: usize = 1024;

/// The queues of all routes, by served name. A queue in which nobody waits is not kept.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue(Mutex<HashMap<String, Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// The number of the next request; requests are in the order of their numbers.
    next: u64,
    waiting: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// It has a place that it has not taken notice of yet.
    is_called: bool,
    waker: Option<Waker>,
}

impl Queue {
    fn position(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |it| it.number).ok()
    }

    /// Calls the first `places` requests that are not called, and returns their wakers.
    fn call(&mut self, places: usize) -> Vec<Waker> {
        let entries = self.waiting.iter_mut().filter(|it| !it.is_called).take(places);
        let called = entries.map(|it| {
            it.is_called = true;
            it.waker.take()
        });
        called.flatten().collect()
    }
}

impl WaitQueue {
    /// Puts a request at the end of a queue; `None` if the queue is full.
    pub(crate) fn join<'a>(&'a self, served_name: &'a str) -> Option<Waiter<'a>> {
        let mut queues = self.lock();
        let queue = queues.entry(served_name.to_owned()).or_default();
        if queue.waiting.len() >= MAX_WAITING {
            return None;
        }
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(Entry { number, is_called: false, waker: None });
        Some(Waiter { queues: self, served_name, number, has_place: false })
    }

    /// Gives free places to requests that wait: for each queue, as many as `places` says for its served name.
    pub(crate) fn free(&self, places: impl Fn(&str) -> usize) {
        let mut queues = self.lock();
        let called: Vec<_> = queues.iter_mut().flat_map(|(name, it)| it.call(places(name))).collect();
        drop(queues);
        called.into_iter().for_each(Waker::wake);
    }

    /// Returns how many requests wait for a model.
    pub(crate) fn requests(&self, served_name: &str) -> usize {
        self.lock().get(served_name).map_or(0, |it| it.waiting.len())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.0.lock()
    }
}

/// A request that waits. It leaves its queue when it is dropped.
pub(crate) struct Waiter<'a> {
    queues: &'a WaitQueue,
    served_name: &'a str,
    number: u64,
    /// It was called, and has not found out yet if it can use its place.
    has_place: bool,
}

impl Waiter<'_> {
    /// Waits until the request is called. It keeps its position in the queue: if its place turns out to be none, it waits
    /// again.
    pub(crate) async fn called(&mut self) {
        self.has_place = false;
        poll_fn(|cx| self.poll_called(cx)).await;
    }

    fn poll_called(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(self.served_name);
        let entry = queue.and_then(|it| it.position(self.number).and_then(|at| it.waiting.get_mut(at)));
        // It is in its queue until it is dropped.
        let Some(entry) = entry else { return Poll::Ready(()) };
        if std::mem::take(&mut entry.is_called) {
            self.has_place = true;
            return Poll::Ready(());
        }
        match &mut entry.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Leaves the queue to use the place that the request was called for.
    pub(crate) fn take_place(mut self) {
        self.has_place = false;
    }

    /// Takes the request out of its queue. Returns the waker of the one that gets its place, if it had one.
    fn leave(&mut self) -> Vec<Waker> {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(self.served_name) else { return Vec::new() };
        let entry = queue.position(self.number).and_then(|at| queue.waiting.remove(at));
        let Some(entry) = entry else { return Vec::new() };
        let next = if entry.is_called || self.has_place { queue.call(1) } else { Vec::new() };
        if queue.waiting.is_empty() {
            queues.remove(self.served_name);
        }
        next
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.leave().into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        task::Wake,
    };

    use super::*;

    /// Counts how often a request is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    struct Client<'a> {
        waiter: Waiter<'a>,
        wakes: Arc<Wakes>,
    }

    impl<'a> Client<'a> {
        /// Joins the queue of `m`, and begins to wait.
        fn new(queues: &'a WaitQueue) -> Self {
            let mut client = Self { waiter: queues.join("m").unwrap(), wakes: Arc::default() };
            assert!(!client.is_called());
            client
        }

        fn is_called(&mut self) -> bool {
            let waker = Waker::from(Arc::clone(&self.wakes));
            pin!(self.waiter.called()).poll(&mut Context::from_waker(&waker)).is_ready()
        }

        fn wakes(&self) -> usize {
            self.wakes.0.load(Relaxed)
        }
    }

    fn wakes<const N: usize>(clients: &[Client<'_>; N]) -> [usize; N] {
        clients.each_ref().map(Client::wakes)
    }

    #[test]
    fn one_is_called_for_each_free_place_in_the_order_of_their_coming() {
        let queues = WaitQueue::default();
        let mut clients = [(); 4].map(|()| Client::new(&queues));
        queues.free(|_| 1);
        assert_eq!(wakes(&clients), [1, 0, 0, 0]);
        queues.free(|_| 2);
        assert_eq!(wakes(&clients), [1, 1, 1, 0]);
        assert_eq!(clients.each_mut().map(Client::is_called), [true, true, true, false]);
        queues.free(|name| usize::from(name == "other"));
        assert_eq!(wakes(&clients), [1, 1, 1, 0], "it was a place of another queue");
    }

    #[test]
    fn nobody_is_woken_twice() {
        let queues = WaitQueue::default();
        let mut clients = [(); 3].map(|()| Client::new(&queues));
        queues.free(|_| usize::MAX);
        queues.free(|_| usize::MAX);
        assert_eq!(wakes(&clients), [1, 1, 1]);
        // Those that find no place wait on, in their old order.
        assert_eq!(clients.each_mut().map(Client::is_called), [true; 3]);
        assert_eq!(clients.each_mut().map(Client::is_called), [false; 3]);
        queues.free(|_| 1);
        assert_eq!(wakes(&clients), [2, 1, 1]);
    }

    #[test]
    fn a_call_between_joining_and_waiting_is_not_lost() {
        let queues = WaitQueue::default();
        let mut client = Client { waiter: queues.join("m").unwrap(), wakes: Arc::default() };
        queues.free(|_| 1);
        assert!(client.is_called());
        assert_eq!(client.wakes(), 0, "it did not sleep");
    }

    #[test]
    fn a_request_that_leaves_gives_its_place_on_and_one_that_uses_it_does_not() {
        let queues = WaitQueue::default();
        let [first, mut second, mut third, fourth] = [(); 4].map(|()| Client::new(&queues));
        queues.free(|_| 1);
        // The first is gone before it takes notice, the second after it has.
        drop(first);
        assert_eq!([second.wakes(), third.wakes()], [1, 0]);
        assert!(second.is_called());
        drop(second);
        assert_eq!([third.wakes(), fourth.wakes()], [1, 0]);
        assert!(third.is_called());
        third.waiter.take_place();
        assert_eq!(fourth.wakes(), 0);
    }

    #[test]
    fn a_request_that_was_not_called_leaves_no_place() {
        let queues = WaitQueue::default();
        let [first, second] = [(); 2].map(|()| Client::new(&queues));
        drop(first);
        assert_eq!(second.wakes(), 0);
        assert_eq!(queues.requests("m"), 1);
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let queues = WaitQueue::default();
        let waiters: Vec<_> = (0..MAX_WAITING).map(|_| queues.join("m").unwrap()).collect();
        assert!(queues.join("m").is_none());
        assert!(queues.join("other").is_some());
        drop(waiters);
        assert_eq!(queues.requests("m"), 0);
        assert!(queues.0.lock().is_empty());
    }
}
