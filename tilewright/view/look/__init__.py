"""A recorded run as people see it: a timeline, a trace for other viewers, and a page that needs nothing else.

schedule            when what happened: in the simulator's order, and in estimated cycles; the critical path; the bars
                    that show it
page                the page: what it shows, as one object of JSON, and its files with that inside; what
                    ``run.timeline()`` gives, and the same for Perfetto and Chrome's viewer
"""

from tilewright.view.look.page import Timeline, explorer, in_a_frame, page_of, written

__all__ = ["Timeline", "explorer", "in_a_frame", "page_of", "written"]
